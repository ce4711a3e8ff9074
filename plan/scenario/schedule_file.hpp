// layout.schedule: the name of a kind, or a grid of actions, as the name of a CSV file or as
// {"name": …, "rows": [a string for each rank]}. Internal to plan/scenario.
#pragma once

#include "plan/scenario/references.hpp"
#include "plan/scenario/scenario.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {

// Replaces the name of a CSV file by the object that it stands for.
void follow_schedule_file(Reading& reading, const Folders& folders);

void read_schedule(Reading& reading, Section& section, Layout& layout);

}  // namespace orrery::plan
