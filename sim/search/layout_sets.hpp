// What makes a scenario of a search's base that has a layout of its space.
#pragma once

#include <string>
#include <vector>

#include "sim/search/search.hpp"

namespace orrery::sim {

// "layout.tensor_parallel=8", …: all that the combination of this number sets, and what the rules
// have settled of its layout.
std::vector<std::string> layout_sets(const SearchBase& base, std::uint64_t number,
                                     const plan::Layout& settled);

}  // namespace orrery::sim
