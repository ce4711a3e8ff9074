#include "calib/fit/fit_memory.hpp"

#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

constexpr double kResident = 1 << 20;

// Exactly on a curve: 2 us, of reductions 5 us, 40 GB/s in cache, 8 GB/s in memory.
std::vector<MemoryRow> rows_on_a_curve() {
    std::vector<MemoryRow> rows;
    for (const bool reduction : {false, true})
        for (double bytes = 4096; bytes <= 64 << 20; bytes *= 1.5) {
            const double per_us = bytes <= kResident ? 40e3 : 8e3;
            rows.push_back({reduction ? "sum" : "map", reduction, bytes,
                            (reduction ? 5.0 : 2.0) + bytes / per_us});
        }
    return rows;
}

TEST(FitMemory, FindsTheCurve) {
    const auto rows = rows_on_a_curve();
    const MemoryFit fit = fit_memory(rows, kResident);
    EXPECT_NEAR(fit.t0_us, 2, 1e-6);
    EXPECT_NEAR(fit.reduction_t0_us, 5, 1e-6);
    EXPECT_NEAR(fit.cache_GBps, 40, 1e-6);
    EXPECT_NEAR(fit.memory_GBps, 8, 1e-6);
    EXPECT_NEAR(fit.held_out.standard_deviation, 0, 1e-9);
    EXPECT_GT(fit.between_rows, 0);
    EXPECT_EQ(fit.fitted_rows + fit.between_rows + fit.held_out.absolute.rows,
              static_cast<std::int64_t>(rows.size()));
}

TEST(FitMemory, NeedsBothRegimes) {
    EXPECT_THROW(fit_memory(rows_on_a_curve(), 1e12), FitError);
    EXPECT_THROW(fit_memory({}, kResident), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
