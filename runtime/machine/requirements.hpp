// What a backend needs and this machine lacks, and what works but costs speed or safety.
#pragma once

#include <string>
#include <vector>

#include "runtime/machine/machine.hpp"

namespace orrery::runtime {

struct Finding {
    std::string what;
    std::string remedy;  // a command, or what to change
};

// What must be there before a run on CUDA devices begins; empty: the backend is ready.
std::vector<Finding> missing_for_cuda(const Machine& machine);

// What a run does without, or in spite of; of what is there only.
std::vector<Finding> advice_for(const Machine& machine);

}  // namespace orrery::runtime
