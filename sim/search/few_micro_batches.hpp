// Whether a layout can fit, asked of a plan with few micro-batches: what is alive at once grows
// with their number, and beyond those that the pipeline has under way hardly. Where a step has
// hundreds its own plan takes as many times longer.
#pragma once

#include <optional>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// The plan of fewer micro-batches needs no more than this share above that of all: arenas are laid
// out anew, and one may be luckier than the other. Held by a test on layouts of all schedules.
inline constexpr double kLuckOfFew = 0.005;

// The same step with eight micro-batches for each pipeline rank; nothing where it has not twice as
// many.
std::optional<plan::Scenario> with_few_micro_batches(const plan::Scenario& scenario);

}  // namespace orrery::sim
