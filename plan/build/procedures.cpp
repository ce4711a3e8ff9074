#include "plan/build/procedures.hpp"

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

BlockUse use_of(const StagePart& part, std::size_t position, std::int32_t block) {
    BlockUse use;
    use.block = block;
    use.layer = part.layer;
    use.position = static_cast<std::int32_t>(position);
    use.bucket = part.bucket;
    return use;
}

// The parts before this one that run again, of which it is the group's last.
void recompute_before(const Stage& stage, std::size_t last, std::vector<BlockUse>& uses) {
    std::size_t first = last;
    while (first > 0 && stage.parts[first - 1].recompute >= 0)
        --first;
    for (std::size_t p = first; p < last; ++p)
        uses.push_back(use_of(stage.parts[p], p, stage.parts[p].recompute));
}

std::vector<BlockUse> backward_uses(ProgramBuilder& builder, const Stage& stage, bool last) {
    const bool overlap = builder.scenario.training.framework.overlap_gradient_reduce;
    const bool reduces = builder.zero() >= 2 || (last && overlap);
    std::vector<BlockUse> uses;
    for (std::size_t p = stage.parts.size(); p-- > 0;) {
        const StagePart& part = stage.parts[p];
        if (part.recompute < 0) recompute_before(stage, p, uses);
        uses.push_back(use_of(part, p, part.backward));
        const Bucket bucket = builder.bucket(part.bucket);
        if (bucket.first_position != static_cast<std::int32_t>(p)) continue;
        // Both gradients of a tied embedding are complete once the table's own is; shards are
        // added after the reduction, whole gradients before.
        const bool tied_add = last && stage.index == 0 && p == 0;
        if (tied_add && builder.zero() < 2)
            for (const BlockUse& use : tied_add_uses(builder))
                uses.push_back(use);
        auto reduce = [&](const std::vector<BlockUse>& reductions) {
            for (BlockUse use : reductions) {
                use.fence = !overlap;
                uses.push_back(use);
            }
        };
        if (reduces) reduce(reduce_uses(builder, part.bucket));
        if (tied_add && builder.zero() >= 2)
            for (const BlockUse& use : tied_add_uses(builder))
                uses.push_back(use);
        if (reduces && last) reduce(replica_uses(builder, part.bucket));
    }
    return uses;
}

std::vector<BlockUse> forward_uses(ProgramBuilder& builder, const Stage& stage, bool gathers) {
    std::vector<BlockUse> uses;
    for (std::size_t p = 0; p < stage.parts.size(); ++p)
        uses.push_back(use_of(stage.parts[p], p, stage.parts[p].forward));
    if (scatters_transfers(builder.scenario, builder.dims) && stage.index > 0)
        uses.insert(uses.begin(), gather_received(builder, stage, true));
    insert_rings(builder, uses, Phase::forward, gathers);
    return uses;
}

}  // namespace

StageProcedures add_procedures(ProgramBuilder& builder, const Stage& stage) {
    const std::string suffix = std::to_string(stage.index);
    std::vector<BlockUse> backward = backward_uses(builder, stage, false);
    std::vector<BlockUse> last = backward_uses(builder, stage, true);
    if (scatters_transfers(builder.scenario, builder.dims)) {
        const bool final =
            stage.index + 1 == static_cast<std::int32_t>(builder.scenario.layout.stages());
        for (auto* uses : {&backward, &last})
            if (!final) uses->insert(uses->begin(), gather_received(builder, stage, false));
    }
    std::vector<BlockUse> forward = forward_uses(builder, stage, true);
    insert_rings(builder, backward, Phase::backward, !builder.keeps_gathered());
    insert_rings(builder, last, Phase::backward, !builder.keeps_gathered());
    StageProcedures procedures;
    procedures.forward = builder.add_procedure("forward " + suffix, std::move(forward));
    procedures.last_backward = builder.add_procedure("last backward " + suffix, std::move(last));
    procedures.backward = builder.scenario.layout.micro_batches() > 1
                              ? builder.add_procedure("backward " + suffix, std::move(backward))
                              : procedures.last_backward;
    return procedures;
}

std::int32_t add_gathered_forward(ProgramBuilder& builder, const Stage& stage) {
    return builder.add_procedure("gathered forward " + std::to_string(stage.index),
                                 forward_uses(builder, stage, false));
}

}  // namespace orrery::plan
