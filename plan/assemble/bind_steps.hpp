// From a row of a lowered schedule to the steps of a program: each action bound to its procedure
// and to the memory that it hands over, keeps or gives back.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/passes/program_builder.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// Whether a rank computes nothing while it sends or receives.
bool blocks_on_transfers(const Scenario& scenario);

void bind_steps(ProgramBuilder& builder, const std::vector<LoweredStep>& row);

}  // namespace orrery::plan
