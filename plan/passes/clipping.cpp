#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

// Sum of squares of one bucket, into its own slot: DESIGN §5 sums partials in one order. Replicated
// parameters count on the first tensor rank alone, a tied embedding on the first stage alone.
Block partial_norm(const ProgramBuilder& builder, const Bucket& bucket) {
    const std::int64_t elements = builder.held(bucket, 1);
    const auto slots = static_cast<std::int64_t>(builder.program.buckets.size());
    Block block;
    block.name = "norm.bucket";
    block.tensors.push_back(
        {"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}});
    block.tensors.push_back({"partial norms", Role::scalar, DType::fp32, {slots}});
    Op op;
    op.kind = OpKind::gradient_norm;
    op.phase = Phase::optimizer;
    op.dtype = builder.gradient_dtype();
    op.shape[0] = elements;
    op.reads = {0};
    op.writes = {1};
    op.label = "gradient norm";
    block.ops.push_back(std::move(op));
    return block;
}

// The slots' sum, then the sum over the ranks that hold other parameters or other shards.
Block total_norm(const ProgramBuilder& builder) {
    const auto slots = static_cast<std::int64_t>(builder.program.buckets.size());
    Block block;
    block.name = "norm.total";
    block.tensors.push_back({"partial norms", Role::scalar, DType::fp32, {slots}});
    block.tensors.push_back({"norm", Role::scalar, DType::fp32, {1}});
    Op sum;
    sum.kind = OpKind::add;
    sum.phase = Phase::optimizer;
    sum.dtype = DType::fp32;
    sum.shape = {1, slots};
    sum.reads = {0};
    sum.writes = {1};
    sum.label = "sum of norms";
    block.ops.push_back(std::move(sum));
    for (const GroupKind group : statistics_groups(builder))
        block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::optimizer,
                                          Stream::data_comm, group, 1, "gradient norm", 1, 1));
    return block;
}

}  // namespace

// Without sharding every data-parallel rank holds all gradients: one copy of the model suffices. So
// do the ranks that share out one copy's states, where there are replicas of it.
std::vector<GroupKind> statistics_groups(const ProgramBuilder& builder) {
    std::vector<GroupKind> groups = {GroupKind::model};
    if (builder.zero() >= 1) groups = {GroupKind::world};
    if (builder.hybrid()) groups = {GroupKind::shard, GroupKind::model};
    std::erase_if(groups, [&](GroupKind group) { return builder.mesh.group_size(group) == 1; });
    return groups;
}

void add_clipping(ProgramBuilder& builder) {
    if (builder.scenario.training.optimizer.clip_norm <= 0) return;
    std::vector<BlockUse> uses = uses_by_bucket(builder, partial_norm);
    BlockUse use;
    use.block = builder.blocks.add(total_norm(builder));
    uses.push_back(use);
    builder.add_step(ActionKind::clip, builder.program.stages.front().index,
                     builder.add_procedure("clip", std::move(uses)));
}

}  // namespace orrery::plan
