// From when the ops of every rank began and ended to a trace in the simulator's terms.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "runtime/executor/device.hpp"
#include "trace/trace.hpp"

namespace orrery::runtime {

// `times`: by rank of the mesh, then by op id of link(plan, program), on one clock. An op is ready
// when what it waits for has ended; a collective starts when its last member has come to it, a
// transfer when both sides have. Time 0 is the first beginning; the step's window runs to the last
// end.
trace::Trace measured_trace(const plan::Plan& plan, const std::vector<std::vector<OpTime>>& times,
                            const std::string& scenario_json);

}  // namespace orrery::runtime
