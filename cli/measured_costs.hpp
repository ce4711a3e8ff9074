// What --costs names: a measured trace, with what the model says of the scenario that it is of, so
// that a simulation of another layout or cluster scales what was measured.
#pragma once

#include <string>
#include <vector>

#include "sim/replay/measured.hpp"

namespace orrery::cli {

// `beside`: the scenario that is simulated; files that the trace's scenario names are looked for
// from its folder, too. `warnings` get why its times say nothing, or why nothing can be scaled:
// where that scenario cannot be read. Throws as read_trace and MeasuredCosts do.
sim::MeasuredCosts read_costs(const std::string& trace, const std::string& beside,
                              std::vector<std::string>& warnings);

}  // namespace orrery::cli
