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
    // Its cluster has as many nodes as the job, all of one kind and alike; what nodes it gets is
    // put in its place (job_on_nodes.hpp).
    plan::Scenario scenario;
    plan::Plan plan;
    Profile profile;  // where the shared cluster's nodes are of several kinds, that of all of them
    double start_s = 0;
    std::vector<std::size_t> kinds{};  // of nodes that it fits, ascending; none: any

    std::int64_t nodes() const { return scenario.cluster.nodes; }
};

// Numbers of nodes of the shared cluster, ascending; ranks fill them in this order, as Slurm's
// block distribution has it.
using NodeList = std::vector<std::int64_t>;

}  // namespace orrery::sim
