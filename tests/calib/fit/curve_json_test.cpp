// What a fit found, as a profile keeps it.
#include "calib/fit/curve_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_attention.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

TEST(CurveJson, KeepsErrorsToFourDigits) {
    AttentionFit fit;
    fit.held_out.absolute = {9, 0.0621349, 0.0478261, 0.2512349};
    const auto held_out = curve_json(fit, "a test").at("held_out");
    EXPECT_EQ(held_out.at("rows"), 9);
    EXPECT_EQ(held_out.at("mean_abs_error"), 0.06213);
    EXPECT_EQ(held_out.at("median_abs_error"), 0.04783);
    EXPECT_EQ(held_out.at("p95_abs_error"), 0.2512);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
