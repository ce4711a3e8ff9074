#include "sim/cost/gemm_model.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

GemmCurve round_curve() {
    GemmCurve curve;
    curve.t0_us = 5;
    curve.rate_tflops = 100;
    curve.bandwidth_GBps = 2000;
    curve.sustained = 0.8;
    return curve;
}

TEST(GemmModel, AddsLaunchArithmeticAndTraffic) {
    const GemmShape shape{1000, 2000, 4000};
    // 2·m·n·k = 16e9 over 80 TFLOP/s = 200 µs; (4e6 + 8e6 + 2e6)·2 B over 2 TB/s = 14 µs
    EXPECT_NEAR(gemm_seconds(round_curve(), shape, 2), (5 + 200 + 14) * 1e-6, 1e-15);
}

TEST(GemmModel, NeighboursThatMissedNothingChangeNothing) {
    GemmCurve curve = round_curve();
    const GemmShape shape{1000, 2000, 4000};
    const double alone = gemm_seconds(curve, shape, 2);
    curve.neighbours = {{10, 11, 12, 1.0}, {9, 9, 9, 1.0}};
    EXPECT_EQ(neighbour_ratio(curve.neighbours, shape), 1.0);
    EXPECT_EQ(gemm_seconds(curve, shape, 2), alone);
    EXPECT_EQ(neighbour_ratio({}, shape), 1.0);
}

TEST(GemmModel, ANearPointDecidesAndAFarOneFades) {
    const GemmShape here{1024, 1024, 1024};
    // on the point: squared distance ½² = ¼, weight 4³ = 64 against the prior's 1
    EXPECT_NEAR(neighbour_ratio({{10, 10, 10, 1.2}}, here), 1 + 0.2 * 64 / 65, 1e-12);
    // one octave away: squared distance 1 + ¼
    const double weight = 1 / (1.25 * 1.25 * 1.25);
    EXPECT_NEAR(neighbour_ratio({{11, 10, 10, 1.2}}, here), 1 + 0.2 * weight / (weight + 1), 1e-12);
    EXPECT_NEAR(neighbour_ratio({{20, 20, 20, 1.2}}, here), 1.0, 1e-4);
}

// Known or not, of two curves and of each product.
TEST(GemmModel, RatiosThatAreKeptAreThoseOfTheirShapeAndCurve) {
    using plan::GemmProduct;
    GemmCurve slow = round_curve(), fast = round_curve();
    slow.neighbours = {{10, 10, 10, 1.2, GemmProduct::forward}};
    fast.neighbours = {{10, 11, 12, 0.9}};
    NeighbourRatios kept;
    for (int time = 0; time < 2; ++time)
        for (const GemmCurve* curve : {&slow, &fast})
            for (const std::optional<GemmProduct> product :
                 {std::optional<GemmProduct>(), std::optional(GemmProduct::forward),
                  std::optional(GemmProduct::weight_gradient)})
                for (const double m : {512.0, 1024.0}) {
                    const GemmShape shape{m, 2048, 4096, product};
                    EXPECT_EQ(kept.of(*curve, shape), neighbour_ratio(curve->neighbours, shape));
                    EXPECT_EQ(gemm_seconds(*curve, shape, 2, &kept),
                              gemm_seconds(*curve, shape, 2));
                }
}

TEST(GemmModel, APointOfAnotherProductSaysNothing) {
    using plan::GemmProduct;
    const NeighbourPoint slow{10, 10, 10, 1.2, GemmProduct::weight_gradient};
    const auto ratio_of = [&](std::optional<GemmProduct> product) {
        return neighbour_ratio({slow}, {1024, 1024, 1024, product});
    };
    EXPECT_EQ(ratio_of(GemmProduct::forward), 1.0);
    EXPECT_EQ(ratio_of(GemmProduct::input_gradient), 1.0);
    EXPECT_NEAR(ratio_of(GemmProduct::weight_gradient), 1 + 0.2 * 64 / 65, 1e-12);
    EXPECT_NEAR(ratio_of(std::nullopt), 1 + 0.2 * 64 / 65, 1e-12);
}

TEST(GemmModel, TheOrderOfPointsHardlyMattersAndTheRatioStaysInTheirRange) {
    const std::vector<NeighbourPoint> points = {
        {9, 10, 11, 0.8}, {12, 9, 10, 1.2}, {14, 13, 8, 1.1}};
    const std::vector<NeighbourPoint> reversed(points.rbegin(), points.rend());
    for (double m = 100; m < 1e5; m *= 1.7) {
        const GemmShape shape{m, 1500, 900};
        EXPECT_NEAR(neighbour_ratio(points, shape), neighbour_ratio(reversed, shape), 1e-14);
        EXPECT_GT(neighbour_ratio(points, shape), 0.8);
        EXPECT_LT(neighbour_ratio(points, shape), 1.2);
    }
}

TEST(GemmModel, CountsOctavesOutsideTheSpans) {
    GemmCurve curve = round_curve();
    EXPECT_EQ(octaves_outside(curve, {1, 1, 1}), 0);  // no spans, nothing to leave
    curve.m = {512, 32768};
    curve.n = curve.k = {256, 65536};
    EXPECT_EQ(octaves_outside(curve, {512, 256, 65536}), 0);
    EXPECT_EQ(octaves_outside(curve, {128, 256, 131072}), 2 + 1);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
