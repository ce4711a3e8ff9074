// What must hold of a plan whose steps are validated by the next ones. Part of plan_faults.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Broken rules, one line each. Where a statistic is handed on:
//  - every program validates once, and can amend;
//  - no gradient is made before that: those of the step before are read again;
//  - what is sent before it is received before it, and the other way round: a step that begins anew
//    does so on all ranks with no message on its way.
void check_validation(const Plan& plan, std::vector<std::string>& faults);

}  // namespace orrery::plan
