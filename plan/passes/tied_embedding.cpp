#include <algorithm>

#include "plan/check.hpp"
#include "plan/passes/passes.hpp"

namespace orrery::plan {

std::vector<BlockUse> tied_add_uses(ProgramBuilder& builder) {
    std::int32_t from = -1;
    for (std::size_t i = 0; i < builder.program.buckets.size(); ++i)
        if (builder.program.buckets[i].tied_elements > 0 && !builder.program.buckets[i].frozen)
            from = static_cast<std::int32_t>(i);
    if (from < 0) return {};
    const std::int64_t elements = builder.tied_held(builder.bucket(from));
    Block block;
    block.name = "tied.add";
    const DType dtype = builder.gradient_dtype();
    block.tensors.push_back({"head gradient", Role::gradient_shard, dtype, {elements}});
    block.tensors.push_back({"embedding gradient", Role::gradient, dtype, {elements}});
    Op op;
    op.spec = Add{1, elements};
    op.phase = Phase::backward;
    op.dtype = dtype;
    op.reads = {0, 1};
    op.writes = {1};
    op.label = "tied embedding";
    block.ops.push_back(op);
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.bucket = from;
    builder.place(use, Role::gradient, builder.bucket(builder.embedding_bucket()).gradients);
    return {use};
}

void add_tied_reduction(ProgramBuilder& builder) {
    const Program& program = builder.program;
    if (builder.placement.pieces() > 0) return;  // each rank has both uses of its words
    const std::int32_t head = builder.placement.stages() - 1;
    const bool first = builder.holds(0);
    if (first == builder.holds(head)) return;
    const Stage& stage = first ? program.stages.front() : program.stages.back();
    const std::vector<PartKind>& kinds =
        first ? builder.part_kinds.front() : builder.part_kinds.back();
    const auto tied =
        std::find_if(kinds.begin(), kinds.end(), [](const PartKind& kind) { return kind.tied; });
    ORRERY_CHECK(tied != kinds.end(), "both ends hold the tied embedding");
    const StagePart& part = stage.parts[static_cast<std::size_t>(tied - kinds.begin())];
    if (builder.bucket(part.bucket).frozen) return;
    // Whole, or this rank's shard: buckets of tied embeddings are alike on both ends.
    const std::int64_t elements = builder.bucket(part.bucket).stepped(builder.mesh);
    Block block;
    block.name = "tied.reduce";
    const DType dtype = builder.gradient_dtype();
    block.tensors.push_back({"embedding gradient", Role::gradient_shard, dtype, {elements}});
    // Transfers of the steps that run ahead do not queue behind it.
    const Stream stream = builder.turns() > 1 ? Stream::data_comm : Stream::pipeline_comm;
    block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::backward, stream,
                                      GroupKind::embedding, elements, "tied embedding", 0, 0));
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.bucket = part.bucket;
    builder.add_step(ActionKind::reduce_tied, stage.index,
                     builder.add_procedure("tied reduction", {use}));
}

}  // namespace orrery::plan
