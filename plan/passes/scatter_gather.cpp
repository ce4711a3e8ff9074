#include <algorithm>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {

bool scatters_transfers(const Scenario& scenario, const Dims& dims) {
    return scenario.training.framework.scatter_gather_transfers && dims.tensor > 1 &&
           !dims.sequence_parallel;
}

void insert_gather_received(ProgramBuilder& builder, ActionUses& action) {
    const Stage& stage = action.stage;
    const bool forward = action.kind == ActionKind::forward;
    const std::int32_t from = stage.index + (forward ? -1 : 1);
    const bool end = from < 0 || std::max(from, stage.index) >= builder.placement.stages();
    if (action.kind == ActionKind::backward_weight || end || builder.holds(from)) return;
    const Dims& dims = builder.dims;
    Block block;
    block.name = forward ? "received.forward" : "received.backward";
    // In place: the share that was received lies where it belongs within the whole.
    block.tensors.push_back({forward ? "x" : "dy",
                             forward ? Role::stash : Role::input,
                             dims.dtype,
                             {dims.tokens, dims.hidden}});
    if (!forward) block.input = 0;
    block.ops.push_back(collective_op(
        block, OpKind::all_gather, forward ? Phase::forward : Phase::backward, Stream::tensor_comm,
        GroupKind::tensor, dims.tokens * dims.hidden, "received", 0, 0));
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.position = forward ? 0 : static_cast<std::int32_t>(stage.parts.size()) - 1;
    action.uses.insert(action.uses.begin(), use);
}

}  // namespace orrery::plan
