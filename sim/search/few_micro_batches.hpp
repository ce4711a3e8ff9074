// Whether a layout can fit, asked of a plan with few micro-batches: what is alive at once grows
// with their number, and beyond those that the pipeline has under way hardly. Where a step has
// hundreds its own plan takes as many times longer.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/scenario/scenario.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

// The same step with eight micro-batches for each pipeline rank; nothing where it has not twice as
// many.
std::optional<plan::Scenario> with_few_micro_batches(const plan::Scenario& scenario);

// What the fullest rank of such a step needs, without gaps between what is alive: the arena of more
// micro-batches is laid out anew and may have fewer of them, but nothing less is alive in it.
std::int64_t least_bytes(const MemoryPrediction& memory, const plan::Framework& framework);

}  // namespace orrery::sim
