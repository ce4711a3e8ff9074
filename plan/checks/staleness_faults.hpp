// Rules of plans whose steps run on into one another (layout.staleness).
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Of parameters, gradients and scalars each of the steps under way has a copy, of states there is
// one, which servers alone touch; no compute op waits for the update of its own step. One line for
// each broken rule.
void check_turns(const Plan& plan, std::int64_t staleness, std::vector<std::string>& faults);

}  // namespace orrery::plan
