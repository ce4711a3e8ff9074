// What every built plan must satisfy, and what it conserves: the worst fault of this field is to
// train silently a model other than the one asked for.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// Quantities that the scenario alone determines, by the closed forms of docs/model.md; build_plan
// checks the plan against them.
Conserved conserved_of(const Scenario& scenario);

// Parameters that one token meets: all but those of experts that it does not go to.
std::int64_t active_parameters_of(const Scenario& scenario);

// Model FLOPs of the forward pass of a step, of which model_flops_per_step is three times as many
// where no matrix is frozen.
double forward_flops_of(const Scenario& scenario);

// Matrix and attention FLOPs of all ops of all ranks; causal attention counts the full square.
double executed_flops(const Plan& plan);

// Broken rules, one line each; empty for a sound plan:
//  - ops have the operands that they declare (plan/checks/operand_faults.hpp);
//  - each stage and micro-batch has one forward and, after it, one backward;
//  - every send has the one receive of its peer;
//  - contracting each collective and each exchange to one node, the union over ranks of their issue
//    order is acyclic over all groups (no deadlock across communicators);
//  - lifetimes cover uses, and residents alive together do not share memory;
//  - what data-parallel ranks share out is gathered before it is used and summed over all of them
//    (plan/checks/sharding_faults.hpp);
//  - layers, parameters, tokens and forward FLOPs are those of the scenario.
std::vector<std::string> plan_faults(const Plan& plan, const Scenario& scenario);

// Stops the program with the faults, which are bugs of ours.
void validate_plan(const Plan& plan, const Scenario& scenario);

}  // namespace orrery::plan
