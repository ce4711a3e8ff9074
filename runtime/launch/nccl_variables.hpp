// A scenario's settings of NCCL as variables of the environment: NCCL reads them once, when a
// process first calls it, so they are exported before.
#pragma once

#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/launch/variable.hpp"

namespace orrery::runtime {

struct NcclVariables {
    std::vector<Variable> exported;  // what the scenario says and the environment does not
    // Bounds of SMs where some groups have their own: NCCL takes a variable for all communicators,
    // whatever each is made with.
    std::vector<std::string> removed;
    // A line for each of the settings that are made, by scenario or environment, for the user:
    // "NCCL_IB_TIMEOUT=22 (run.nccl.ib_timeout, instead of the environment's 18)".
    std::vector<std::string> lines;
};

// A scenario that is silent leaves a variable as it is; one that is not wins.
NcclVariables nccl_variables(const plan::NcclSettings& settings, const VariableLookup& environment);

// Into this process's environment, and out of it; before it has threads.
void export_variables(const std::vector<Variable>& variables);
void remove_variables(const std::vector<std::string>& names);

}  // namespace orrery::runtime
