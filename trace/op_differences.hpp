// Where two steps that have been aligned differ in time, op by op: how many ops have a counterpart
// and how many take longer, what of each op of a block there is, and what each stage does.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/alignment.hpp"

namespace orrery::trace {

// Ops of a program each count once, however many ranks run it. An op takes from its start to its
// end, in the mean over the ranks of its program.
struct OpCounts {
    std::int64_t a_ops = 0;
    std::int64_t b_ops = 0;
    std::int64_t aligned = 0;  // of either
    std::int64_t longer = 0;   // of the aligned ones, in B …
    std::int64_t shorter = 0;
    std::int64_t moved = 0;    // to another pipeline rank
    std::int64_t resized = 0;  // of other FLOPs or bytes
};

// All runs of an op of a block.
struct OpDifference {
    const OpName* a = nullptr;  // null: B alone has them
    const OpName* b = nullptr;  // null: A alone
    std::int64_t count = 0;     // in a program each
    double a_s = 0;             // sum of a rank's, mean over ranks
    double b_s = 0;

    const OpName& name() const { return a != nullptr ? *a : *b; }
    bool resized() const;
};

// Ops of a kind and group that a stage runs: sum of a rank's, mean over the ranks that have it.
struct StageDifference {
    std::int32_t stage = 0;
    plan::OpKind kind = plan::OpKind::gemm;
    plan::GroupKind group = plan::GroupKind::none;
    double a_s = 0;
    double b_s = 0;
};

struct OpDifferences {
    OpCounts counts;
    std::vector<OpDifference> ops;        // largest difference first, whichever sign
    std::vector<StageDifference> stages;  // likewise
};

// Whether the work of one is of another size than that of the other.
bool resized(const OpName& a, const OpName& b);

OpDifferences op_differences(const Alignment& alignment);

}  // namespace orrery::trace
