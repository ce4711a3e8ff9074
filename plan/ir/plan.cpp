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

std::string_view name(MemoryCategory category) {
    return kCategoryNames[static_cast<std::size_t>(category)];
}

bool same_message(const Transfer& a, std::int32_t owner_of_a, const Transfer& b) {
    auto forward = [](const Transfer& t) {
        return t.action.kind == ActionKind::send_f || t.action.kind == ActionKind::recv_f;
    };
    const bool sends = is_send(a.action.kind);
    if (sends == is_send(b.action.kind) || forward(a) != forward(b) || b.peer != owner_of_a ||
        a.action.micro_batch != b.action.micro_batch)
        return false;
    // Forward messages go to the next stage, backward ones to the one before.
    return b.action.stage == a.action.stage + (forward(a) == sends ? 1 : -1);
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
