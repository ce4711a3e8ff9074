// The order of actions that a layout asks for, by the name of a schedule or as a grid of its own.
#pragma once

#include "plan/scenario/scenario.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

Schedule chosen_schedule(const Layout& layout);

}  // namespace orrery::plan
