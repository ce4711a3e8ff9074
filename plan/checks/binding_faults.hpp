// Rules of where tensors lie, as far as a plan can break them.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// Whatever an op touches has a slot; the slot lies within the memory that the step gives it, all
// shares of it, and that is alive. Bytes that two slots of one procedure have in common are of one
// piece, so that their accesses are ordered.
void check_bindings(const Plan& plan, const Program& program, std::vector<std::string>& faults);

}  // namespace orrery::plan
