#include "plan/memory/optimizer_states.hpp"

#include <algorithm>

namespace orrery::plan {

bool OptimizerStates::alike() const {
    return std::all_of(all.begin(), all.end(), [this](const OptimizerState& state) {
        return state.dtype == all.front().dtype;
    });
}

OptimizerStates optimizer_states(const Dims& dims, std::int64_t elements) {
    OptimizerStates states;
    states.all = {{"exp_avg", dims.first_moment}, {"exp_avg_sq", dims.second_moment}};
    if (dims.keeps_masters()) states.all.push_back({"main", dims.main_parameters});
    std::vector<OptimizerState*> by_width;
    for (OptimizerState& state : states.all)
        by_width.push_back(&state);
    std::stable_sort(by_width.begin(), by_width.end(),
                     [](const OptimizerState* a, const OptimizerState* b) {
                         return size_bytes(a->dtype) > size_bytes(b->dtype);
                     });
    for (OptimizerState* const state : by_width) {
        state->offset = states.bytes;
        states.bytes += elements * size_bytes(state->dtype);
    }
    return states;
}

}  // namespace orrery::plan
