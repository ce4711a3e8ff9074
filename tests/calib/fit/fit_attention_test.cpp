#include "calib/fit/fit_attention.hpp"

#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

// 20 µs + 7 ps per query element + 3 ps per key element + unmasked FLOP at 150 TFLOP/s, by hand.
double seconds(const AttentionRow& row) {
    const auto d = [](std::int64_t v) { return static_cast<double>(v); };
    const double tokens = d(row.batch) * d(row.sequence) * d(row.head_dim);
    return 20e-6 + 7e-12 * tokens * d(row.heads) + 3e-12 * tokens * d(row.kv_heads) +
           2 * tokens * d(row.heads) * d(row.sequence) / 150e12;
}

std::vector<AttentionRow> synthetic_rows() {
    std::vector<AttentionRow> rows;
    for (std::int64_t batch : {1, 4, 16})
        for (std::int64_t sequence : {512, 1024, 4096, 16384})
            for (std::int64_t heads : {8, 32, 96})
                for (std::int64_t kv_heads : {1, 8})
                    for (std::int64_t head_dim : {64, 128}) {
                        AttentionRow row{batch, sequence, heads, kv_heads, head_dim, 0};
                        row.time_us = seconds(row) * 1e6;
                        rows.push_back(row);
                    }
    return rows;
}

TEST(FitAttention, RecoversTheDevice) {
    const std::vector<AttentionRow> rows = synthetic_rows();
    EXPECT_EQ(head_dims(rows), (std::vector<std::int64_t>{64, 128}));
    for (std::int64_t head_dim : {64, 128}) {
        const AttentionFit fit = fit_attention(rows, head_dim);
        EXPECT_EQ(fit.curve.head_dim, head_dim);
        EXPECT_NEAR(fit.curve.t0_us, 20, 1e-5);
        EXPECT_NEAR(fit.curve.query_element_ps, 7, 1e-5);
        EXPECT_NEAR(fit.curve.key_element_ps, 3, 1e-5);
        EXPECT_NEAR(fit.curve.rate_tflops, 150, 1e-4);
        EXPECT_LT(fit.held_out.absolute.p95_abs_error, 1e-8);
        EXPECT_EQ(fit.curve.sequence.low, 512);
        EXPECT_EQ(fit.curve.sequence.high, 16384);
        EXPECT_EQ(fit.fitted_rows + fit.held_out.absolute.rows, 3 * 4 * 3 * 2);
    }
    EXPECT_THROW(fit_attention(rows, 96), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
