// What a trace says of its plan: ops with their names and sizes, programs op by op. Whoever fills
// in the events, simulator or runtime, describes the plan with this, so that traces of one plan
// join.
#pragma once

#include <vector>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// A trace with ops and programs, and no scenario, tracks or window yet. `linked`: by program, from
// link(); with repetitions a program has the ops of each.
Trace describe_plan(const plan::Plan& plan, std::vector<plan::LinkedProgram> linked);

}  // namespace orrery::trace
