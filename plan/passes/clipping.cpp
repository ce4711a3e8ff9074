#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

// Whether statistics are summed over more ranks than hold shares of the bucket, which each of
// several has whole.
bool holds_copies(const ProgramBuilder& builder, const Bucket& bucket) {
    return builder.scenario.model.has_experts() && bucket.shares.empty() &&
           builder.shards(bucket) > 1;
}

// Sum of squares of one bucket, added to those before it. Replicated parameters count on the first
// tensor rank alone, a tied embedding on the first stage alone.
Block partial_norm(const ProgramBuilder& builder, const Bucket& bucket) {
    const std::int64_t elements = bucket.stepped(builder.mesh);
    Block block;
    block.name = "norm.bucket";
    block.tensors.push_back(
        {"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}});
    block.tensors.push_back(norm_scalar());
    Op op;
    op.spec = GradientNorm{elements, holds_copies(builder, bucket)};
    op.phase = Phase::optimizer;
    op.stream = builder.optimizer_stream();
    op.dtype = builder.gradient_dtype();
    op.reads = {0, 1};
    op.writes = {1};
    op.label = "gradient norm";
    block.ops.push_back(std::move(op));
    return block;
}

// The sum over the ranks that hold other parameters or other shards.
Block total_norm(const std::vector<GroupKind>& groups) {
    Block block;
    block.name = "norm.total";
    block.tensors.push_back(norm_scalar());
    for (const GroupKind group : groups)
        block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::optimizer,
                                          statistics_stream(group), group, kNormBins,
                                          "gradient norm", 0, 0));
    return block;
}

}  // namespace

Tensor norm_scalar() {
    return {"norm", Role::scalar, DType::fp64, {kNormBins}};
}

// Without sharding every data-parallel rank holds all gradients: one copy of the model suffices. So
// do the ranks that share out one copy's states, where there are replicas of it; spread experts are
// all among these. Where steps are validated later, those of one stage: sums are handed on from
// stage to stage. Experts are spread over all ranks of a stage.
std::vector<GroupKind> statistics_groups(const ProgramBuilder& builder) {
    const bool within_stage = !builder.statistics.empty();
    const GroupKind copy = within_stage ? GroupKind::tensor : GroupKind::model;
    std::vector<GroupKind> groups = {copy};
    if (builder.sharding.optimizer || builder.scenario.model.has_experts())
        groups = within_stage ? std::vector{GroupKind::data, GroupKind::tensor}
                              : std::vector{GroupKind::world};
    if (builder.hybrid()) groups = {GroupKind::shard, copy};
    std::erase_if(groups, [&](GroupKind group) { return builder.mesh.group_size(group) == 1; });
    return groups;
}

Stream statistics_stream(GroupKind group) {
    return group == GroupKind::tensor ? Stream::tensor_comm : Stream::data_comm;
}

void add_clipping(ProgramBuilder& builder) {
    std::vector<BlockUse> uses = uses_by_bucket(builder, partial_norm);
    if (const auto groups = statistics_groups(builder); !groups.empty()) {
        BlockUse use;
        use.block = builder.blocks.add(total_norm(groups));
        uses.push_back(use);
    }
    builder.add_step(ActionKind::clip, builder.program.stages.front().index,
                     builder.add_procedure("clip", std::move(uses)));
}

}  // namespace orrery::plan
