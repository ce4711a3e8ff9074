#include "sim/cost/log2.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

TEST(Log2, IsExactOnPowersOfTwo) {
    for (int e = -300; e <= 300; ++e)
        EXPECT_EQ(log2_of(std::ldexp(1.0, e)), e);
}

TEST(Log2, AgreesWithTheLibrary) {
    for (int e : {-40, -1, 0, 1, 13, 60})
        for (int i = 0; i < 4096; ++i) {
            const double x = std::ldexp(1.0 + i / 4096.0, e);
            EXPECT_NEAR(log2_of(x), std::log2(x), 1e-12) << x;
        }
}

TEST(Log2, NeverFalls) {
    double last = log2_of(0.5);
    for (double x = 0.5; x < 8; x += 1e-4) {
        const double next = log2_of(x);
        EXPECT_GE(next, last) << x;
        last = next;
    }
}

TEST(Log2DeathTest, RefusesWhatHasNoLogarithm) {
    EXPECT_DEATH(log2_of(0.0), "log2");
    EXPECT_DEATH(log2_of(-1.0), "log2");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
