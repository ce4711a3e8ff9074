#include "plan/ir/accumulates.hpp"

#include <algorithm>

namespace orrery::plan {

bool accumulates(const Block& block, const Op& op) {
    if (is_communication(op.kind()) || op.is<AdamW>() || op.is<UpdateLossScale>() ||
        op.is<JudgeLoss>())
        return false;
    return std::any_of(op.writes.begin(), op.writes.end(), [&](TensorId id) {
        const Role role = block.tensors[static_cast<std::size_t>(id)].role;
        const bool sum =
            is_accumulator(role) || role == Role::gradient_shard || role == Role::scalar;
        return sum && std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
    });
}

}  // namespace orrery::plan
