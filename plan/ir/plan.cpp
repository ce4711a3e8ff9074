#include "plan/ir/plan.hpp"

namespace orrery::plan {
namespace {
constexpr std::array<std::string_view, kMemoryCategories> kCategoryNames = {
    "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};
}

std::string_view name(MemoryCategory category) {
    return kCategoryNames[static_cast<std::size_t>(category)];
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
