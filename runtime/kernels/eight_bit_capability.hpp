// Which of a plan's eight-bit products a backend performs, asked before anything starts.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/diagnostic.hpp"

namespace orrery::runtime {

struct EightBitKernels {
    const char* code;      // of what is refused
    const char* who;       // "CPU ranks": have no …
    bool blocks = false;   // scales of blocks
    bool experts = false;  // products of experts' rows
};

// Why the backend cannot perform the plan, of a scenario read from `file`; empty where it can.
std::vector<plan::Diagnostic> reasons_not_in_eight_bits(const plan::Plan& plan,
                                                        const std::string& file,
                                                        const EightBitKernels& has);

}  // namespace orrery::runtime
