#include "calib/fit/fit_kernels.hpp"

#include <gtest/gtest.h>

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

constexpr double kResident = 1 << 20;

std::vector<MemoryRow> rows_of(const std::string& kernel, double t0_us, double GBps) {
    std::vector<MemoryRow> rows;
    for (double bytes = 4096; bytes <= kResident; bytes *= 1.2)
        rows.push_back({kernel, false, bytes, t0_us + bytes / (GBps * 1e3)});
    return rows;
}

TEST(FitKernels, FindsTheCurveOfEach) {
    std::vector<MemoryRow> rows = rows_of("norm", 3, 10);
    for (const MemoryRow& row : rows_of("activation", 1, 2))
        rows.push_back(row);
    const std::vector<KernelFit> fits = fit_kernels(rows, kResident);
    ASSERT_EQ(fits.size(), 2U);
    EXPECT_EQ(fits[0].kernel, "activation");
    EXPECT_NEAR(fits[0].t0_us, 1, 1e-6);
    EXPECT_NEAR(fits[0].GBps, 2, 1e-6);
    EXPECT_NEAR(fits[0].held_out.standard_deviation, 0, 1e-9);
    EXPECT_EQ(fits[1].kernel, "norm");
    EXPECT_NEAR(fits[1].t0_us, 3, 1e-6);
    EXPECT_NEAR(fits[1].GBps, 10, 1e-6);
    EXPECT_EQ(fits[1].fitted_rows + fits[1].held_out.absolute.rows,
              static_cast<std::int64_t>(rows.size() / 2));
}

TEST(FitKernels, LeaveOutWhatTheCacheDoesNotHold) {
    std::vector<MemoryRow> rows = rows_of("norm", 3, 10);
    const std::int64_t fitted = fit_kernels(rows, kResident).at(0).fitted_rows;
    for (double bytes = 2 * kResident; bytes < 64 * kResident; bytes *= 1.2)
        rows.push_back({"norm", false, bytes, bytes});
    EXPECT_EQ(fit_kernels(rows, kResident).at(0).fitted_rows, fitted);
}

TEST(FitKernels, SayNothingOfAKernelThatWasHardlyTimed) {
    EXPECT_TRUE(fit_kernels({{"norm", false, 4096, 1}}, kResident).empty());
    EXPECT_TRUE(fit_kernels({}, kResident).empty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
