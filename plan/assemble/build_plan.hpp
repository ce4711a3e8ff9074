// From a scenario to its plan: the one function that says what a training step is.
#pragma once

#include "plan/assemble/plan_parts.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// The scenario must have passed validation; a plan that breaks its own rules is a bug and stops the
// program (see validate_plan, which every built plan goes through).
Plan build_plan(const Scenario& scenario);

// The same without the look at its own rules, and without what is conserved: for those who take
// many small plans apart (sim/search).
Plan assemble_plan(const Scenario& scenario);
// The same of one plan after another whose parts may be alike.
Plan assemble_plan(const Scenario& scenario, PlanParts& parts, Slots slots = Slots::with_offsets);
// Both, of a plan that was assembled for the scenario.
void complete_plan(Plan& plan, const Scenario& scenario);

}  // namespace orrery::plan
