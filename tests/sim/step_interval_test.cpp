// Where a predicted interval begins.
#include <gtest/gtest.h>

#include "sim/step_interval.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

TEST(StepInterval, BeginsAsFarBelowAsItsDeviationSaysDownToAQuarter) {
    for (const double early : {0.0, 0.1, 0.5, 0.75})
        EXPECT_DOUBLE_EQ(earliest_share(early), 1 - early);
}

// Goes on without a step or a kink, falls for ever and is never nothing.
TEST(StepInterval, NeverBeginsWithAStepThatTakesNoTime) {
    const double h = 1e-6;
    EXPECT_NEAR(earliest_share(0.75 + h), 0.25 - h, h * h * 4);
    double before = earliest_share(0.75);
    for (double early = 0.8; early < 4; early += 0.1) {
        const double share = earliest_share(early);
        EXPECT_GT(share, 0) << early;
        EXPECT_LT(share, before) << early;
        EXPECT_GE(share, 1 - early) << early;
        before = share;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
