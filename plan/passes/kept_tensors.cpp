#include <algorithm>
#include <utility>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

void keep_tensors(Block& block, const std::vector<bool>& kept) {
    std::vector<TensorId> moved(block.tensors.size(), -1);
    std::vector<Tensor> tensors;
    for (std::size_t id = 0; id < block.tensors.size(); ++id) {
        if (!kept[id]) continue;
        moved[id] = static_cast<TensorId>(tensors.size());
        tensors.push_back(std::move(block.tensors[id]));
    }
    block.tensors = std::move(tensors);
    const auto move = [&](TensorId& id) {
        if (id >= 0) id = moved[static_cast<std::size_t>(id)];
    };
    move(block.input);
    move(block.output);
    for (DeclaredParameter& parameter : block.parameters)
        move(parameter.tensor);
    for (Op& op : block.ops)
        for (auto* ids : {&op.reads, &op.writes})
            std::for_each(ids->begin(), ids->end(), move);
}

}  // namespace orrery::plan
