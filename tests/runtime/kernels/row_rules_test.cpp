// Shared rules of rows: what attention sees, running softmax, targets of the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/attention_rules.hpp"
#include "runtime/kernels/loss_rules.hpp"
#include "runtime/kernels/softmax_rules.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

TEST(AttentionRules, ARangeOfKeysAndOfQueriesIsWhatIsSeen) {
    constexpr std::int64_t kSequence = 12;
    for (const std::int64_t window : {0, 1, 3, 12, 40}) {
        const AttentionMask mask{window, nullptr};
        for (std::int64_t query = 0; query < kSequence; ++query)
            for (std::int64_t key = 0; key < kSequence; ++key) {
                const bool seen = key <= query && (window == 0 || query - key < window);
                EXPECT_EQ(sees(mask, query, key), seen);
                EXPECT_EQ(key >= first_key_of(mask, query) && key <= query, seen);
                EXPECT_EQ(query >= key && query < end_of_queries(mask, key, kSequence), seen);
            }
    }
}

TEST(AttentionRules, HeadsLieOneAfterAnother) {
    const AttentionShape shape{1, 5, 4, 2, 3};
    EXPECT_EQ(query_at(shape, 0, 0), 0);
    EXPECT_EQ(query_at(shape, 3, 0), 9);
    EXPECT_EQ(key_at(shape, 1, 0), 15);
    EXPECT_EQ(value_at(shape, 0, 0), 18);
    EXPECT_EQ(value_at(shape, 1, 2), 2 * 24 + 21);
    EXPECT_EQ(context_at(shape, 3, 2), 2 * 12 + 9);
}

TEST(AttentionRules, AlibiIsTheSlopeTimesTheDistance) {
    const double slopes[] = {0.5, 0.25};
    EXPECT_EQ(slope_term({0, slopes}, 1, 9, 5), -1);
    EXPECT_EQ(slope_term({0, slopes}, 0, 9, 9), 0);
    EXPECT_EQ(slope_term({0, nullptr}, 1, 9, 5), 0);
}

// Of 3 samples on from the sixth, 8 heads of which this rank has those from the third on.
TEST(AttentionRules, AProbabilityIsDroppedByItsPlaceInTheWholeBatch) {
    const AttentionDropout dropout{{{7, 1, 2}, 0.5}, 6, 3, 8};
    const AttentionShape shape{3, 10, 2, 1, 4};
    int kept = 0;
    for (std::int64_t key = 0; key < 10; ++key) {
        const std::uint64_t index =
            (((6 + 2) * 8 + 3 + 1) * 10 + 9) * 10 + static_cast<std::uint64_t>(key);
        const float expected = random_word({7, 1, 2}, index) >= 0x80000000U ? 2.0F : 0.0F;
        EXPECT_EQ(probability_factor(dropout, shape.sequence, 2, 1, 9, key), expected);
        kept += expected > 0 ? 1 : 0;
    }
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 10);
    EXPECT_EQ(probability_factor({{}, 0, 0, 8}, shape.sequence, 0, 0, 0, 0), 1);
}

TEST(SoftmaxRules, PiecesGiveTheSumOfTheWhole) {
    constexpr std::uint64_t kScores = 60;
    for (const std::uint64_t piece : {1U, 7U, 60U}) {
        RunningSum running;
        double expected = 0;
        for (std::uint64_t first = 0; first < kScores; first += piece) {
            float largest = RunningSum{}.largest;
            const std::uint64_t end = std::min(first + piece, kScores);
            const auto score = [](std::uint64_t i) {
                return static_cast<float>(10 * normal({3, 0, 0}, i));
            };
            for (std::uint64_t i = first; i < end; ++i)
                largest = std::max(largest, score(i));
            const float before = running.largest;
            const float factor = raise_largest(running, largest);
            if (first > 0) {
                EXPECT_EQ(factor, std::exp(before - running.largest));
            }
            for (std::uint64_t i = first; i < end; ++i) {
                running.sum += std::exp(score(i) - running.largest);
                expected += std::exp(static_cast<double>(score(i)));
            }
        }
        // The logarithm of a sum of 60 roundings, and of a largest score of about 20.
        EXPECT_NEAR(static_cast<double>(log_sum_exp(running)), std::log(expected),
                    60 * 0x1p-24 + 32 * 0x1p-24);
    }
}

// A row of which nothing has been seen yet is scaled by 1, not by exp(∞ − ∞).
TEST(SoftmaxRules, NothingSeenChangesNothing) {
    RunningSum running;
    EXPECT_EQ(raise_largest(running, running.largest), 1);
    EXPECT_EQ(running.sum, 0);
}

TEST(LossRules, ATargetIsOnOneRank) {
    const LogitsPart first{1, 10, 0, 10}, second{1, 10, 10, 7};
    EXPECT_EQ(column_of(first, 9), 9);
    EXPECT_EQ(column_of(second, 9), -1);
    EXPECT_EQ(column_of(first, 10), -1);
    EXPECT_EQ(column_of(second, 10), 0);
    EXPECT_EQ(column_of(second, 17), -1);  // padding
    EXPECT_EQ(column_of(first, -1), -1);
    EXPECT_EQ(sum_of_ignored(first) + sum_of_ignored(second), 1);
}

TEST(LossRules, GradientsAreScaledByBothFactors) {
    const float loss_scale = 512;
    CrossEntropyBackward op;
    op.scale = 0.25;
    EXPECT_EQ(gradient_scale(op), 0.25F);
    op.loss_scale = &loss_scale;
    EXPECT_EQ(gradient_scale(op), 128);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
