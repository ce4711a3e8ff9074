// A difference is exact: accounts sum to it, it is nothing of a scenario with itself, and it
// changes its sign with its direction.
#include "sim/whatif/difference.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

Prediction predicted(const Sets& sets) {
    static const Profile profile = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return simulate(theory::scenario(sets), profile, {}, "");
}

Picoseconds sum_of(const trace::Accounts& accounts) {
    Picoseconds sum = 0;
    for (const Picoseconds part : accounts)
        sum += part;
    return sum;
}

RC_GTEST_PROP(Difference, SumsAndTurns, ()) {
    const Prediction a = predicted(random_sets());
    const Prediction b = predicted(random_sets());
    const Difference there = difference_of(a, b);
    const Difference back = difference_of(b, a);
    RC_ASSERT(sum_of(there.accounts_a) == there.step_a);
    RC_ASSERT(sum_of(there.accounts_b) == there.step_b);
    RC_ASSERT(to_seconds(there.step_a) == a.step.time_s);
    for (std::size_t i = 0; i < trace::kAccounts; ++i) {
        RC_ASSERT(there.accounts_b[i] - there.accounts_a[i] ==
                  -(back.accounts_b[i] - back.accounts_a[i]));
        const double off = to_seconds(there.accounts_a[i]) - a.step.breakdown_s[i];
        RC_ASSERT(off < 1.1e-12 && off > -1.1e-12);
    }
    RC_ASSERT(there.busy.size() == back.busy.size());
    for (std::size_t i = 0; i < there.busy.size(); ++i) {
        const auto same =
            std::find_if(back.busy.begin(), back.busy.end(), [&](const BusyDifference& op) {
                return op.kind == there.busy[i].kind && op.group == there.busy[i].group;
            });
        RC_ASSERT(same != back.busy.end());
        RC_ASSERT(same->a_s == there.busy[i].b_s);
        RC_ASSERT(same->b_s == there.busy[i].a_s);
    }
}

RC_GTEST_PROP(Difference, OfAScenarioWithItselfIsNothing, ()) {
    const Prediction a = predicted(random_sets());
    const Difference none = difference_of(a, a);
    RC_ASSERT(none.step_a == none.step_b);
    RC_ASSERT(none.accounts_a == none.accounts_b);
    for (const BusyDifference& op : none.busy)
        RC_ASSERT(op.a_s == op.b_s);
}

// Two ranks of one class, one of another: means in thirds, and
// what they leave over goes to the account with the largest remainder.
TEST(Difference, MeansAreWholeAndSumToTheStep) {
    trace::Trace trace;
    trace.ops.push_back({"", "", plan::OpKind::gemm, plan::Phase::forward});
    trace.ops.push_back({"", "", plan::OpKind::adamw, plan::Phase::optimizer});
    trace::ProgramOps program;
    program.op = {0, 1};
    trace.programs = {program};
    trace.tracks.push_back({0, {{1, 1}}, 0, {{0, 0, 7, trace::kNothing, -1}, {7, 7, 10, 0, -1}}});
    trace.tracks.push_back({2, {}, 0, {{0, 0, 9, trace::kNothing, -1}, {9, 9, 10, 0, -1}}});
    trace.step_end = 10;
    const trace::Accounts mean = whole_mean_accounts(trace, trace::sums_of(trace));
    // compute (2·7 + 9)/3 = 7 + 2/3, optimizer (2·3 + 1)/3 = 2 + 1/3.
    EXPECT_EQ(mean[static_cast<std::size_t>(trace::Account::compute)], 8);
    EXPECT_EQ(mean[static_cast<std::size_t>(trace::Account::optimizer)], 2);
    EXPECT_EQ(sum_of(mean), 10);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
