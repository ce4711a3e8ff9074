// What of a bucket a rank steps, and what of it counts in the norm of gradients, as runs of
// elements from the start of its shard: neighbours that are treated alike are one run.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/executor/bound_program.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

// Where nothing decays anyway, `decay` is 0.
std::vector<SteppedRun> stepped_runs(const BoundProgram& program, std::size_t bucket, double decay);

// What every tensor rank holds counts on the first one, the copy of a tied embedding where it
// embeds.
std::vector<ElementRun> counted_runs(const BoundProgram& program, std::size_t bucket);

}  // namespace orrery::runtime
