// A training job among others on one cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::sim {

struct Job {
    std::string name;
    // Its cluster is the shared one with as many nodes as the job has, all of one kind and alike.
    plan::Scenario scenario;
    plan::Plan plan;
    Profile profile;
    double start_s = 0;

    std::int64_t nodes() const { return scenario.cluster.nodes; }
};

// Numbers of nodes of the shared cluster, ascending; ranks fill them in this order, as Slurm's
// block distribution has it.
using NodeList = std::vector<std::int64_t>;

}  // namespace orrery::sim
