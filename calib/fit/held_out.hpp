// Which rows a fit may not see, and how well it does on them. The choice is a hash of what was
// measured, never of when or of the row's place, so it survives reordering and new rows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cost/profile.hpp"

namespace orrery::fit {

// FNV-1a, 64 bits (Fowler, Noll, Vo): std::hash differs between libraries.
std::uint64_t fnv1a(std::string_view text);

// True for one key in five.
bool is_held_out(std::string_view key);

// Of errors predicted ÷ measured − 1, in any order, at least one.
struct ErrorSummary {
    sim::HeldOut absolute;
    double bias = 0;                // mean signed error
    double standard_deviation = 0;  // root mean square: about zero error, not about the bias
};
ErrorSummary summarize(std::vector<double> errors);

}  // namespace orrery::fit
