#include "calib/fit/fit_gemm.hpp"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"
#include "sim/cost/gemm_model.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

// A device of 7 µs, 250 TFLOP/s, 3 TB/s; `bump(log2 m)` multiplies its times.
template <typename Bump>
std::vector<GemmRow> synthetic_rows(Bump bump) {
    sim::GemmCurve truth;
    truth.t0_us = 7;
    truth.rate_tflops = 250;
    truth.bandwidth_GBps = 3000;
    std::vector<GemmRow> rows;
    for (std::int64_t m = 512; m <= 32768; m *= 2)
        for (std::int64_t n = 256; n <= 65536; n *= 2)
            for (std::int64_t k = 256; k <= 65536; k *= 2) {
                const auto d = [](std::int64_t v) { return static_cast<double>(v); };
                const double seconds = sim::gemm_seconds(truth, {d(m), d(n), d(k)}, 2);
                rows.push_back({m, n, k, seconds * 1e6 * bump(std::log2(d(m)))});
            }
    return rows;
}

TEST(FitGemm, RecoversTheDevice) {
    const GemmFit fit = fit_gemm(synthetic_rows([](double) { return 1.0; }), 2);
    EXPECT_NEAR(fit.curve.t0_us, 7, 1e-6);
    EXPECT_NEAR(fit.curve.rate_tflops, 250, 1e-5);
    EXPECT_NEAR(fit.curve.bandwidth_GBps, 3000, 1e-3);
    EXPECT_LT(fit.held_out.absolute.mean_abs_error, 1e-8);
    for (const sim::NeighbourPoint& point : fit.curve.neighbours)
        EXPECT_NEAR(point.ratio, 1, 1e-8);
    EXPECT_EQ(fit.curve.m.low, 512);
    EXPECT_EQ(fit.curve.n.high, 65536);
}

TEST(FitGemm, NeighboursLearnABumpThatTheCurveCannot) {
    // a fifth slower around m = 4096, which no t0, rate or bandwidth explains; broader than a cell
    const GemmFit fit = fit_gemm(
        synthetic_rows([](double m) { return 1 + 0.2 / (1 + (m - 12) * (m - 12) / 4); }), 2);
    EXPECT_LT(fit.held_out.absolute.mean_abs_error,
              2.0 / 3 * fit.held_out_curve_only.absolute.mean_abs_error);
    EXPECT_GT(fit.held_out_curve_only.absolute.mean_abs_error, 0.02);
}

// Weight gradients a tenth slower, forward products a tenth faster than one curve can say.
TEST(FitGemm, NeighboursKeepProductsApart) {
    using plan::GemmProduct;
    std::vector<GemmRow> rows;
    for (const GemmRow& row : synthetic_rows([](double) { return 1.0; }))
        for (const auto& [product, factor] :
             {std::pair{GemmProduct::forward, 0.9}, std::pair{GemmProduct::weight_gradient, 1.1}}) {
            rows.push_back(row);
            rows.back().time_us *= factor;
            rows.back().product = product;
        }
    const GemmFit fit = fit_gemm(rows, 2);
    EXPECT_NEAR(fit.held_out_curve_only.absolute.mean_abs_error, 0.1, 0.02);
    EXPECT_LT(fit.held_out.absolute.mean_abs_error,
              fit.held_out_curve_only.absolute.mean_abs_error / 2)
        << "t0 is left, which no ratio changes";
    std::vector<GemmRow> mixed = rows;
    for (GemmRow& row : mixed)
        row.product.reset();
    EXPECT_NEAR(fit_gemm(mixed, 2).held_out.absolute.mean_abs_error, 0.1, 0.02);
}

// Rows of a library that quantizes the first operand in each timed call: 9 µs and 2 ps per element.
TEST(FitGemm, TakesOffTheQuantizationThatWasTimedToo) {
    std::vector<GemmRow> rows = synthetic_rows([](double) { return 1.0; });
    for (GemmRow& row : rows)
        row.time_us += 9 + 2e-6 * static_cast<double>(row.m * row.k);
    const GemmFit fit = fit_gemm(rows, 2, 7.0);
    EXPECT_NEAR(fit.curve.t0_us, 7, 1e-6);
    EXPECT_NEAR(fit.curve.rate_tflops, 250, 1e-5);
    EXPECT_NEAR(fit.curve.bandwidth_GBps, 3000, 1e-2);
    ASSERT_TRUE(fit.quantization);
    EXPECT_NEAR(fit.quantization->t0_us, 9, 1e-5);
    EXPECT_NEAR(fit.quantization->element_ps, 2, 1e-6);
    EXPECT_LT(fit.held_out.absolute.mean_abs_error, 1e-8);
    // Taken for products alone, the same rows give a curve that misses them.
    EXPECT_GT(fit_gemm(rows, 2).held_out_curve_only.absolute.mean_abs_error, 0.05);
}

// At 250 TFLOP/s a product takes 0.008 n ps per element of its first operand, at n = 1024 less than
// the 20 ps of a slow quantization, its operands included.
TEST(FitGemm, MakesNoNeighboursOfRowsThatAreMostlyQuantization) {
    std::vector<GemmRow> rows = synthetic_rows([](double) { return 1.0; });
    for (GemmRow& row : rows)
        row.time_us += 9 + 20e-6 * static_cast<double>(row.m * row.k);
    const GemmFit fit = fit_gemm(rows, 2, 7.0);
    EXPECT_FALSE(fit.curve.neighbours.empty());
    for (const sim::NeighbourPoint& point : fit.curve.neighbours)
        EXPECT_GT(point.log2_n, 10);
}

TEST(FitGemm, ClipsNeighboursAtAQuarter) {
    const GemmFit fit = fit_gemm(synthetic_rows([](double m) { return m > 14.5 ? 2.0 : 1.0; }), 2);
    double largest = 0;
    for (const sim::NeighbourPoint& point : fit.curve.neighbours)
        largest = std::max(largest, point.ratio);
    EXPECT_EQ(largest, 1.25);
}

TEST(FitGemm, LeavesOddRowsOut) {
    std::vector<GemmRow> rows = synthetic_rows([](double) { return 1.0; });
    const std::size_t even = rows.size();
    for (std::size_t i = 0; i < even; i += 10) {
        GemmRow odd = rows[i];
        odd.m += 1;
        odd.time_us *= 3;
        rows.push_back(odd);
    }
    const GemmFit fit = fit_gemm(rows, 2);
    EXPECT_EQ(static_cast<std::size_t>(fit.odd_rows), rows.size() - even);
    EXPECT_EQ(static_cast<std::size_t>(fit.fitted_rows + fit.held_out.absolute.rows), even);
    EXPECT_NEAR(fit.curve.rate_tflops, 250, 1e-5);
}

TEST(FitGemm, DoesNotDependOnTheOrderOfRows) {
    std::vector<GemmRow> rows =
        synthetic_rows([](double m) { return 1 + 0.1 / (1 + (m - 12) * (m - 12)); });
    const GemmFit one = fit_gemm(rows, 2);
    const GemmFit other = fit_gemm({rows.rbegin(), rows.rend()}, 2);
    EXPECT_NEAR(one.curve.rate_tflops, other.curve.rate_tflops, 1e-6);
    EXPECT_EQ(one.fitted_rows, other.fitted_rows);
    EXPECT_EQ(one.curve.neighbours.size(), other.curve.neighbours.size());
}

TEST(FitGemm, ReadsOneSystemAndType) {
    const std::string path = testing::TempDir() + "gemm_rows.csv";
    std::ofstream(path) << "system,dtype,m,n,k,time_us,source\n"
                           "one,bf16,512,256,128,5.5,here\n"
                           "one,fp8,512,256,128,3.5,here\n"
                           "two,bf16,512,256,128,4.5,here\n";
    const std::vector<GemmRow> rows = read_gemm_rows(path, "one", "bf16");
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].time_us, 5.5);
    EXPECT_THROW(read_gemm_rows(path, "three", "bf16"), FitError);
    EXPECT_THROW(fit_gemm(rows, 2), FitError);  // one row cannot be split
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
