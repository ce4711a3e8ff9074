// The plan of a step with another size of the batch than the scenario's: of a batch that ramps up.
#pragma once

#include <cstdint>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

Plan build_batch_plan(Scenario scenario, std::int64_t global_batch);

}  // namespace orrery::plan
