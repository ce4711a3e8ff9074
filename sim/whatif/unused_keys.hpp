// Which keys of a scenario a prediction does not depend on, and why: a value that looks like a
// choice and changes nothing would mislead whoever turns it.
#pragma once

#include <string>
#include <vector>

#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

struct UnusedKey {
    std::string pointer;  // "/cluster/inter_node/latency_us"
    std::string why;
    bool words = false;  // for people: nobody expects that it changes a number
};

// Of the keys that the scenario's files and --set give, in their order. `read` has a scenario.
std::vector<UnusedKey> unused_keys(const plan::ReadResult& read, const Prediction& prediction);

}  // namespace orrery::sim
