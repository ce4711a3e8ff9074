// What must hold of a plan whose states are shared out over data-parallel ranks. Part of
// plan_faults.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Broken rules, one line each:
//  - the ranks that share out states divide the data group, and reductions and gathers run over
//    them (and over replicas) where these are not all of it;
//  - what a collective scatters or gathers divides by its ranks, one of which holds each shard;
//  - parts read parameters that are held whole, or gathered since the last change and not yet
//    overwritten; gradients in a ring are reduced before their slot is filled again;
//  - the gradients of every bucket are summed over all data-parallel ranks.
void check_sharding(const Plan& plan, std::vector<std::string>& faults);

}  // namespace orrery::plan
