// Why two steps take unequally long: the difference of two predictions, account by account, kind of
// op by kind of op, byte by byte.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/prediction.hpp"

namespace orrery::sim {

// Mean over ranks in whole picoseconds: each at most one off the exact mean, and their sum exactly
// the step. What the means leave over goes to the largest remainders.
trace::Accounts whole_mean_accounts(const trace::Trace& trace, const trace::StepSums& sums);

// How long ops of one kind and group are in progress during the step, mean over ranks.
struct BusyDifference {
    plan::OpKind kind = plan::OpKind::gemm;
    plan::GroupKind group = plan::GroupKind::none;
    double a_s = 0;
    double b_s = 0;
};

struct Difference {
    Picoseconds step_a = 0;
    Picoseconds step_b = 0;
    trace::Accounts accounts_a{};  // sum to step_a
    trace::Accounts accounts_b{};
    std::vector<BusyDifference> busy;  // largest difference first, whichever sign
};

// Of two predictions that are not stuck.
Difference difference_of(const Prediction& a, const Prediction& b);

}  // namespace orrery::sim
