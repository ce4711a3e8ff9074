// Whether steps that are issued in turns (Step::beside_last) may be.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// A backward step directly behind a forward step, neither of which touches bytes that the other
// writes: nothing would order the two. To be asked before a program is linked.
void check_pairs(const Plan& plan, const Program& program, std::vector<std::string>& faults);

}  // namespace orrery::plan
