#include "plan/ir/plan.hpp"

namespace orrery::plan {
namespace {
constexpr std::array<std::string_view, kMemoryCategories> kCategoryNames = {
    "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};
}

std::string_view name(Tier tier) {
    constexpr std::array<std::string_view, kTiers> kNames = {"device", "host", "disk"};
    return kNames[static_cast<std::size_t>(tier)];
}

std::string_view name(Frame frame) {
    constexpr std::array<std::string_view, kFrames> kNames = {
        "none", "resident", "stash", "kept", "deferred", "received", "input", "output", "stored"};
    return kNames[static_cast<std::size_t>(frame)];
}

std::string_view name(MemoryCategory category) {
    return kCategoryNames[static_cast<std::size_t>(category)];
}

bool same_message(const Transfer& a, std::int32_t owner_of_a, const Transfer& b) {
    const ActionKind mine = a.action.kind, theirs = b.action.kind;
    return is_send(mine) != is_send(theirs) && goes_onward(mine) == goes_onward(theirs) &&
           carries_statistic(mine) == carries_statistic(theirs) && b.peer == owner_of_a &&
           a.action.micro_batch == b.action.micro_batch &&
           b.action.stage == a.action.stage + hop_to_peer(mine);
}

bool lies_before(std::int32_t rank, std::int32_t peer, std::int64_t ranks) {
    const std::int64_t after = (peer - rank + ranks) % ranks, before = ranks - after;
    return after == before ? peer < rank : before < after;
}

std::int32_t Plan::exchange_of(const Program& program, const Step& step) const {
    const bool before =
        exchange_before >= 0 &&
        lies_before(program.pipeline_rank, step.transfers.front().peer, mesh.pipeline);
    if (!carries_statistic(step.action.kind)) return before ? exchange_before : exchange_block;
    return (before ? statistics_before
                   : statistics)[static_cast<std::size_t>(step.action.micro_batch)];
}

std::vector<std::uint32_t> Plan::first_ops() const {
    std::vector<std::uint32_t> first;
    first.reserve(blocks.size() + 1);
    std::uint32_t next = 0;
    for (const Block& block : blocks) {
        first.push_back(next);
        next += static_cast<std::uint32_t>(block.ops.size());
    }
    first.push_back(next);
    return first;
}

}  // namespace orrery::plan
