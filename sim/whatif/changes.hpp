// What can be changed in a scenario to need less memory: the moves that the search for fixes tries.
#pragma once

#include <vector>

#include "plan/scenario/scenario.hpp"
#include "sim/whatif/fixes.hpp"

namespace orrery::sim {

// One value of a key, with what other keys it may need: the first alternative that makes a valid
// scenario is meant ("tensor_parallel": 8, else that and half of "data_parallel").
using Alternatives = std::vector<std::vector<Setting>>;

// Values of one key, mildest first.
using Family = std::vector<Alternatives>;

// Those that are not in force already; whether they are valid only the reader knows.
std::vector<Family> memory_savers(const plan::Scenario& scenario);

}  // namespace orrery::sim
