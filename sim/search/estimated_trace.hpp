// The step of a layout's estimate as a trace: what there is to see of it before it is simulated.
// Its ops are passes as a whole, the messages between pipeline ranks, and what follows after the
// last pass; what goes on within a pass (collectives of tensor, context and expert parallelism, the
// launches of kernels) is part of its time.
#pragma once

#include <vector>

#include "plan/scenario/scenario.hpp"
#include "sim/search/layout_estimate.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

// A track for each pipeline rank, of a schedule's `passes` with the outline's times. Live bytes are
// those on the device, without the process.
trace::Trace estimated_trace(const plan::Scenario& valid, const StepOutline& outline,
                             const std::vector<std::vector<TimedPass>>& passes);

}  // namespace orrery::sim
