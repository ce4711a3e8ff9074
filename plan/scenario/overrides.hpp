// --set a.b.c=value: changes to the document before it is read. Internal to plan/scenario.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/scenario/reading.hpp"

namespace orrery::plan {

// Applies those of `sets` that replace a whole part ("model=…", "training.framework=…"): they may
// bring references of their own, so they come before references are followed.
void apply_part_overrides(Reading& reading, const std::vector<std::string>& sets);

// Applies the others, in order, after references are followed; `after_each` follows those that one
// of them brings, for the next to change what is in them.
void apply_key_overrides(Reading& reading, const std::vector<std::string>& sets,
                         const std::function<void()>& after_each);

}  // namespace orrery::plan
