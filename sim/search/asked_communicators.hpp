// The communicators that the plan of a layout would ask for, from what units of its stages name
// (stage_costs.hpp): units have fewer data-parallel ranks, no hybrid sharding and whole ends.
#pragma once

#include <vector>

#include "plan/ir/communicators.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// By pipeline rank, with transfers and what the units of its stages name. `folds_back`: one rank
// has both the first and the last stage.
void settle_communicators(const plan::Scenario& valid, const plan::Mesh& mesh, bool folds_back,
                          std::vector<plan::Communicators>& by_rank);

}  // namespace orrery::sim
