// What AdamW keeps of a bucket between steps, and where each state lies in the bucket's resident:
// moments, then main parameters, where the weights are not stepped themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/blocks/dims.hpp"

namespace orrery::plan {

struct OptimizerState {
    const char* name;         // "exp_avg", as PyTorch calls it
    DType dtype;              // in which it is kept; a step computes in Dims::wide_dtype
    std::int64_t offset = 0;  // bytes from the start of the resident
};

// Of so many elements, side by side: the widest types first, so that each lies where its type may.
struct OptimizerStates {
    std::vector<OptimizerState> all;  // exp_avg, exp_avg_sq and perhaps main
    std::int64_t bytes = 0;

    bool alike() const;
    bool keeps_main() const { return all.size() > 2; }
};

OptimizerStates optimizer_states(const Dims& dims, std::int64_t elements);

}  // namespace orrery::plan
