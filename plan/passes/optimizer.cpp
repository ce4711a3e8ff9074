#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

Block adamw_block(const ProgramBuilder& builder, const Bucket& bucket) {
    const std::int64_t elements = builder.held(bucket, 1);
    const std::int64_t states = builder.dims.keeps_masters() ? 3 : 2;
    Block block;
    block.name = "adamw.bucket";
    block.tensors.push_back(
        {"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}});
    block.tensors.push_back(
        {"states", Role::optimizer, builder.dims.wide_dtype, {states, elements}});
    block.tensors.push_back({"parameters", Role::parameter_shard, builder.dims.dtype, {elements}});
    Op op;
    op.kind = OpKind::adamw;
    op.phase = Phase::optimizer;
    op.dtype = builder.dims.wide_dtype;
    op.shape[0] = elements;
    op.reads = {0, 1};
    if (!builder.dims.keeps_masters()) op.reads.push_back(2);
    auto reads_scalar = [&](Tensor scalar) {
        op.reads.push_back(static_cast<TensorId>(block.tensors.size()));
        block.tensors.push_back(std::move(scalar));
    };
    if (builder.scenario.training.optimizer.clip_norm > 0) reads_scalar(norm_scalar());
    if (builder.dims.scales_loss()) reads_scalar({"overflow", Role::scalar, DType::fp32, {1}});
    if (builder.scenario.training.loss_spike.skips()) reads_scalar(loss_spike_scalar());
    op.writes = {1, 2};
    op.label = "adamw";
    block.ops.push_back(op);
    return block;
}

}  // namespace

void add_optimizer(ProgramBuilder& builder) {
    std::vector<BlockUse> uses = loss_spike_uses(builder);
    for (std::size_t i = 0; i < builder.program.buckets.size(); ++i) {
        const Bucket& bucket = builder.program.buckets[i];
        if (bucket.elements == 0) continue;
        BlockUse use;
        use.bucket = static_cast<std::int32_t>(i);
        use.block = builder.blocks.add(adamw_block(builder, bucket));
        uses.push_back(use);
        if (gathers_whole(builder) && !gathers_parameters_ahead(builder.scenario))
            uses.push_back(gather_use(builder, use.bucket));
    }
    builder.add_step(ActionKind::step, builder.program.stages.front().index,
                     builder.add_procedure("optimizer", std::move(uses)));
}

}  // namespace orrery::plan
