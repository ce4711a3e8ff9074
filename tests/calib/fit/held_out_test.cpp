#include "calib/fit/held_out.hpp"

#include <string>

#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

TEST(HeldOut, HashesAsPublished) {  // test vectors of the FNV authors (draft-eastlake-fnv)
    EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
    EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
    EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
}

TEST(HeldOut, TakesAFifth) {
    int held_out = 0;
    for (int i = 0; i < 10000; ++i)
        if (is_held_out("gemm " + std::to_string(i) + " 256 512")) ++held_out;
    EXPECT_NEAR(held_out, 2000, 4 * 40);  // four standard deviations of a fair draw
}

TEST(HeldOut, Summarizes) {
    const ErrorSummary summary = summarize({0.1, -0.2, 0.3, 0.0, -0.4});
    EXPECT_EQ(summary.absolute.rows, 5);
    EXPECT_NEAR(summary.absolute.mean_abs_error, 0.2, 1e-15);
    EXPECT_EQ(summary.absolute.median_abs_error, 0.2);
    EXPECT_EQ(summary.absolute.p95_abs_error, 0.4);
    EXPECT_NEAR(summary.bias, -0.04, 1e-15);
    EXPECT_NEAR(summary.standard_deviation * summary.standard_deviation, 0.3 / 5, 1e-15);
    EXPECT_THROW(summarize({}), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
