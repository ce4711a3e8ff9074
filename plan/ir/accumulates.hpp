// Whether an op adds to what it writes: told by what it reads and where that lies.
#pragma once

#include "plan/ir/block.hpp"

namespace orrery::plan {

// The first such op of a step (in memory of a ring: of an action) finds nothing there and
// overwrites.
bool accumulates(const Block& block, const Op& op);

}  // namespace orrery::plan
