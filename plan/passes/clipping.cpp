#include "plan/passes/passes.hpp"

namespace orrery::plan {

void add_clipping(ProgramBuilder& builder) {
    if (builder.scenario.training.optimizer.clip_norm <= 0) return;
    std::vector<BlockUse> uses;
    for (std::size_t i = 0; i < builder.program.buckets.size(); ++i) {
        const std::int64_t elements = builder.held(builder.program.buckets[i], 1);
        Block block;
        block.name = "norm.bucket";
        block.tensors.push_back(
            {"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}});
        block.tensors.push_back({"partial norm", Role::scalar, DType::fp32, {1}});
        Op op;
        op.kind = OpKind::gradient_norm;
        op.phase = Phase::optimizer;
        op.dtype = builder.gradient_dtype();
        op.shape[0] = elements;
        op.reads = {0};
        op.writes = {1};
        op.label = "gradient norm";
        block.ops.push_back(op);
        BlockUse use;
        use.block = builder.blocks.add(std::move(block));
        use.bucket = static_cast<std::int32_t>(i);
        uses.push_back(use);
    }
    // Without sharding every data-parallel rank holds all gradients: one copy of the model
    // suffices.
    const GroupKind group = builder.zero() >= 1 ? GroupKind::world : GroupKind::model;
    if (builder.mesh.group_size(group) > 1) {
        Block block;
        block.name = "norm.total";
        block.tensors.push_back({"norm", Role::scalar, DType::fp32, {1}});
        Op op;
        op.kind = OpKind::all_reduce;
        op.phase = Phase::optimizer;
        op.group = group;
        op.stream = Stream::data_comm;
        op.dtype = DType::fp32;
        op.shape[0] = 1;
        op.reads = {0};
        op.writes = {0};
        op.label = "gradient norm";
        block.ops.push_back(op);
        BlockUse use;
        use.block = builder.blocks.add(std::move(block));
        uses.push_back(use);
    }
    builder.add_step(ActionKind::clip, builder.program.stages.front().index,
                     builder.add_procedure("clip", std::move(uses)));
}

}  // namespace orrery::plan
