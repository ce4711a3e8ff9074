#include "calib/compare/rank_order.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

// Of batches of two sequences each.
Validation runs_of(const std::vector<std::pair<double, double>>& predicted_and_measured) {
    Validation validation;
    for (const auto& [predicted, measured] : predicted_and_measured) {
        ValidatedRow row;
        row.group = "source";
        row.contest = "model and cluster";
        row.global_batch = 2;
        row.predicted_s = predicted;
        row.measured_s = measured;
        validation.rows.push_back(row);
    }
    return validation;
}

TEST(RankOrder, IsWholeWhereOrdersAgree) {
    const auto contests =
        contests_of(runs_of({{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}, {6, 60}}));
    ASSERT_EQ(contests.size(), 1U);
    EXPECT_EQ(contests[0].pairs, 15U);  // of 6 runs: 6·5/2
    EXPECT_DOUBLE_EQ(contests[0].tau_b, 1);
    EXPECT_DOUBLE_EQ(contests[0].regret, 0);
}

TEST(RankOrder, IsTheOppositeWhereTheyAreReversed) {
    const auto contests =
        contests_of(runs_of({{6, 10}, {5, 20}, {4, 30}, {3, 40}, {2, 50}, {1, 60}}));
    EXPECT_DOUBLE_EQ(contests[0].tau_b, -1);
    EXPECT_DOUBLE_EQ(contests[0].regret, 5);  // 60 where 10 was possible
}

// 100 and 103 are equal: 14 pairs differ in measurement, 15 in prediction, and all 14 agree.
TEST(RankOrder, CountsTimesThatAreCloseAsEqual) {
    const auto contests =
        contests_of(runs_of({{2, 100}, {1, 103}, {3, 200}, {4, 300}, {5, 400}, {6, 500}}));
    EXPECT_EQ(contests[0].pairs, 14U);
    EXPECT_DOUBLE_EQ(contests[0].tau_b, 14 / std::sqrt(14.0 * 15));
    EXPECT_NEAR(contests[0].regret, 0.03, 1e-12);
}

// The same time for half the batch is the slower run.
TEST(RankOrder, ComparesTheTimeOfASequence) {
    Validation validation = runs_of({{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}, {5, 50}});
    validation.rows.back().global_batch = 1;
    const auto contests = contests_of(validation);
    EXPECT_EQ(contests[0].pairs, 15U);
    EXPECT_DOUBLE_EQ(contests[0].tau_b, 1);
}

TEST(RankOrder, LeavesOutWhatIsNotTrustedAndTooFew) {
    Validation validation = runs_of({{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}, {6, 60}});
    validation.rows[0].mistrusted = "why";
    EXPECT_TRUE(contests_of(validation).empty());
    EXPECT_EQ(rank_order_markdown(validation), "");
    EXPECT_TRUE(contests_of(runs_of(std::vector<std::pair<double, double>>(6, {1, 1}))).empty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
