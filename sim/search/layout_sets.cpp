#include "sim/search/layout_sets.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery::sim {

std::vector<std::string> layout_sets(const SearchBase& base, std::uint64_t number,
                                     const plan::Layout& settled) {
    std::vector<std::string> sets = base.sets;
    for (const std::string& set : base.space.sets(number))
        sets.push_back(set);
    sets.push_back(fmt::format("layout.data_parallel={}", settled.data_parallel));
    const auto& counts = settled.layers_per_stage;
    const bool even = std::all_of(counts.begin(), counts.end(),
                                  [&](std::int64_t count) { return count == counts[0]; });
    sets.push_back(even ? "layout.layers_per_stage=even"
                        : fmt::format("layout.layers_per_stage=[{}]", fmt::join(counts, ",")));
    return sets;
}

}  // namespace orrery::sim
