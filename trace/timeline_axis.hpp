// The axis of a timeline: round times at readable distances, as text and for whoever draws.
#pragma once

#include <string>

#include "trace/timeline_cells.hpp"

namespace orrery::trace {

// The smallest of 1, 2, 5 × 10^k picoseconds that is at least `least`.
Picoseconds round_step(Picoseconds least);

// "1.5 s": in the unit of `end`, with the decimals that multiples of `step` need.
std::string tick_label(Picoseconds time, Picoseconds end, Picoseconds step);

// A ruler and its labels, `indent` spaces before each; times count from `zero`.
std::string axis_text(const Window& window, Picoseconds zero, std::size_t indent);

}  // namespace orrery::trace
