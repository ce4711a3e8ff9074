// The order of actions that a layout asks for, by the name of a schedule or as a grid of its own.
#pragma once

#include "plan/passes/program_builder.hpp"
#include "plan/scenario/scenario.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

Schedule chosen_schedule(const Layout& layout);

// Which forms of backward a schedule has.
PartForms forms_in(const ActionGrid& grid);

}  // namespace orrery::plan
