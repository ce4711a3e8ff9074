// What no backend performs of plans in eight bits, asked before anything starts.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/diagnostic.hpp"

namespace orrery::runtime {

struct EightBitKernels {
    const char* code;  // of what is refused
    const char* who;   // "CPU ranks": have no …
};

// Why the backend whose kernels these are cannot perform the plan, of a scenario read from `file`;
// empty where it can.
std::vector<plan::Diagnostic> reasons_not_in_eight_bits(const plan::Plan& plan,
                                                        const std::string& file,
                                                        const EightBitKernels& kernels);

}  // namespace orrery::runtime
