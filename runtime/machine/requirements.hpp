// What a backend needs and this machine lacks, and what works but costs speed or safety.
#pragma once

#include <optional>
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

// Whether adapters can read and write GPUs' memory themselves, so that messages between nodes pass
// the host's memory by; nothing where that is not known, or there is no GPU.
std::optional<bool> has_gpu_direct(const Machine& machine);

// What a run does without, or in spite of; of what is there only.
std::vector<Finding> advice_for(const Machine& machine);

}  // namespace orrery::runtime
