// What the targets that read traces share: a trace to start from, and what must hold of each that
// is read.
#pragma once

#include <string>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::fuzz {

// Of one step of the small scenario with these --set.
trace::Trace simulated_trace(const std::vector<std::string>& sets);

// Checked: every view of the trace works, and accounts of time sum to the step.
void check_views(const trace::Trace& trace);

}  // namespace orrery::fuzz
