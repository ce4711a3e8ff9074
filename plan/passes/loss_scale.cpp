// fp16 with loss scaling, in the order of Megatron-LM's MixedPrecisionOptimizer::prepare_grads
// (_unscale_main_grads_and_check_for_nan, then the scaler's update), before the gradient norm.
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

Op optimizer_op(OpSpec spec, const char* label, DType dtype, std::vector<TensorId> reads,
                std::vector<TensorId> writes) {
    Op op;
    op.spec = std::move(spec);
    op.phase = Phase::optimizer;
    op.dtype = dtype;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.label = label;
    return op;
}

// Gradients ÷ loss scale, in place, and whether one of these or of those before is not finite.
Block unscale_block(const ProgramBuilder& builder, const Bucket& bucket) {
    const std::int64_t elements = bucket.stepped(builder.mesh);
    Block block;
    block.name = "unscale.bucket";
    block.tensors = {{"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}},
                     {"loss scale", Role::scalar, DType::fp32, {1}},
                     overflow_scalar()};
    block.ops.push_back(
        optimizer_op(Unscale{elements}, "loss scale", builder.gradient_dtype(), {0, 1, 2}, {0, 2}));
    return block;
}

// A dynamic scale falls after an overflow, or rises after a number of steps without (the counters).
void update_scale(const ProgramBuilder& builder, Block& block) {
    if (builder.scenario.training.loss_scale > 0) return;
    block.tensors.push_back({"loss scale", Role::scalar, DType::fp32, {1}});
    block.tensors.push_back({"loss scale counters", Role::scalar, DType::i32, {2}});
    const DynamicLossScale& rule = builder.scenario.training.dynamic_loss_scale;
    block.ops.push_back(
        optimizer_op(UpdateLossScale{1, rule.growth_interval, rule.hysteresis, rule.minimum},
                     "loss scale", DType::fp32, {0, 1, 2}, {1, 2}));
}

// The sum of the flags over ranks: not zero where any gradient overflowed. The next step's scale
// follows from it, unless that of the other stages is still to come.
Block settle_block(const ProgramBuilder& builder) {
    Block block;
    block.name = "unscale.total";
    block.tensors = {overflow_scalar()};
    for (const GroupKind group : statistics_groups(builder))
        block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::optimizer,
                                          statistics_stream(group), group, 1, "overflow", 0, 0));
    if (builder.statistics.empty()) update_scale(builder, block);
    return block;
}

}  // namespace

Tensor overflow_scalar() {
    return {"overflow", Role::scalar, DType::fp32, {1}};
}

std::vector<BlockUse> loss_scale_update_uses(ProgramBuilder& builder) {
    if (!builder.dims.scales_loss() || builder.scenario.training.loss_scale > 0) return {};
    Block block;
    block.name = "loss_scale";
    block.tensors = {overflow_scalar()};
    update_scale(builder, block);
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    return {use};
}

void add_unscaling(ProgramBuilder& builder) {
    std::vector<BlockUse> uses = uses_by_bucket(builder, unscale_block);
    if (Block settle = settle_block(builder); !settle.ops.empty()) {
        BlockUse use;
        use.block = builder.blocks.add(std::move(settle));
        uses.push_back(use);
    }
    builder.add_step(ActionKind::unscale, builder.program.stages.front().index,
                     builder.add_procedure("unscale", std::move(uses)));
}

}  // namespace orrery::plan
