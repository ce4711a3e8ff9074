// Steps whose loss spikes are not taken, as PaLM's authors did by hand (Chowdhery 2022, §5.1): the
// batch's loss is held against the mean of the last ones that counted, on every rank alike.
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

Op scalar_op(OpSpec spec, const char* label, std::vector<TensorId> reads,
             std::vector<TensorId> writes) {
    Op op;
    op.spec = std::move(spec);
    op.phase = Phase::optimizer;
    op.dtype = DType::fp64;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.label = label;
    return op;
}

bool has_last_stage(const ProgramBuilder& builder) {
    return builder.holds(builder.placement.stages() - 1);
}

// The last stage has the loss of a data-parallel rank's samples; the sum over all ranks is the
// batch's. Kept between steps: the losses that count, and how many there have been.
Block judge_block(const ProgramBuilder& builder) {
    Block block;
    block.name = "loss_spike";
    auto scalar = [&](const char* name, DType dtype, std::int64_t elements) {
        block.tensors.push_back({name, Role::scalar, dtype, {elements}});
        return static_cast<TensorId>(block.tensors.size()) - 1;
    };
    std::vector<TensorId> own;
    if (has_last_stage(builder)) own.push_back(scalar("loss", builder.dims.wide_dtype, 1));
    const TensorId loss = scalar("batch loss", DType::fp64, 1);
    const TensorId accepted =
        scalar("accepted losses", DType::fp64, builder.scenario.training.loss_spike.window);
    const TensorId count = scalar("losses accepted", DType::i32, 1);
    block.tensors.push_back(loss_spike_scalar());
    const auto spike = static_cast<TensorId>(block.tensors.size()) - 1;
    std::vector<TensorId> judged = {loss, accepted, count};
    if (builder.dims.scales_loss()) judged.push_back(scalar("overflow", DType::fp32, 1));

    block.ops.push_back(scalar_op(LossShare{1}, "loss", std::move(own), {loss}));
    if (builder.mesh.ranks() > 1)
        block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::optimizer,
                                          Stream::data_comm, GroupKind::world, 1, "loss", loss,
                                          loss));
    const LossSpike& rule = builder.scenario.training.loss_spike;
    block.ops.push_back(scalar_op(JudgeLoss{1, rule.window, rule.skip_above}, "loss spike",
                                  std::move(judged), {accepted, count, spike}));
    return block;
}

}  // namespace

Tensor loss_spike_scalar() {
    return {"loss spike", Role::scalar, DType::fp32, {1}};
}

void add_loss_spike(ProgramBuilder& builder, std::vector<BlockUse>& optimizer) {
    BlockUse use;
    use.block = builder.blocks.add(judge_block(builder));
    optimizer.push_back(use);
}

}  // namespace orrery::plan
