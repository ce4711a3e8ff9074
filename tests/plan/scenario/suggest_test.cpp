#include "plan/scenario/suggest.hpp"

#include <gtest/gtest.h>

#include "plan/scenario/arithmetic.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

TEST(EditDistance, CountsInsertDeleteReplaceAndSwap) {
    EXPECT_EQ(edit_distance("", ""), 0);
    EXPECT_EQ(edit_distance("abc", ""), 3);
    EXPECT_EQ(edit_distance("", "abc"), 3);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // two replaced, one inserted
    EXPECT_EQ(edit_distance("1fb1", "1f1b"), 1);       // one swap
    EXPECT_EQ(edit_distance("ca", "abc"), 3);          // a swapped pair is not edited again
}

TEST(Nearest, FindsMisspeltWordsAndOtherStacksNames) {
    const std::vector<std::string> keys = {"tensor_parallel", "pipeline_parallel", "kind"};
    EXPECT_EQ(nearest("tensor_paralel", keys), "tensor_parallel");
    EXPECT_EQ(nearest("pipeline_model_parallel_size", keys), "pipeline_parallel");
    EXPECT_EQ(nearest("tp", keys), "tensor_parallel");
    EXPECT_EQ(nearest("lr", keys), "");  // learning_rate is not a key here
    EXPECT_EQ(nearest("king", keys), "kind");
    EXPECT_EQ(nearest("king's", keys), "");
    EXPECT_EQ(nearest("name", keys), "");  // short words must be closer
}

TEST(ByDistance, PutsTheNearestFirst) {
    EXPECT_EQ(by_distance("b.json", {"aaa.json", "bb.json", "c.json"}, 2),
              (std::vector<std::string>{"bb.json", "c.json"}));
    // One that has the word in it is meant, however long it is.
    EXPECT_EQ(by_distance("h100", {"cpu-8", "clusters/h100-sxm-256", "l40s"}, 2),
              (std::vector<std::string>{"clusters/h100-sxm-256", "l40s"}));
}

TEST(Arithmetic, QuotientsShowTwoDecimals) {
    EXPECT_EQ(quotient(80, 16), "5");
    EXPECT_EQ(quotient(80, 32), "2.5");
    EXPECT_EQ(quotient(1, 4), "0.25");
    EXPECT_EQ(quotient(1, 8), "0.12…");
    EXPECT_EQ(quotient(100, 3), "33.33…");
}

TEST(Arithmetic, DivisorsAreCompleteAndAscending) {
    EXPECT_EQ(divisors(12, 12), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 12}));
    EXPECT_EQ(divisors(36, 10), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 9}));
    EXPECT_EQ(divisors(1, 1), (std::vector<std::int64_t>{1}));
    EXPECT_TRUE(divisors(12, 0).empty());
}

TEST(Arithmetic, ChoicesAreTheNearestInOrder) {
    EXPECT_EQ(choices_near(5, {1, 2, 3, 4, 6, 8}, 3), "3, 4 or 6");
    EXPECT_EQ(choices_near(5, {4}), "4");
    EXPECT_EQ(choices_near(5, {}), "");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
