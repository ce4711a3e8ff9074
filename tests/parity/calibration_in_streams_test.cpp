// What a calibration of devices asks of them, performed: by devices with streams whose kernels are
// the CPU's, and whose collectives are a library's.
#include <chrono>
#include <map>

#include <gtest/gtest.h>

#include "calib/measure/collective_timings.hpp"
#include "calib/measure/device_experts.hpp"
#include "calib/measure/device_timings.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "tests/parity/host_streams.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using measure::DeviceGrid;
using measure::DeviceOperands;
using measure::DeviceTimer;
using plan::OpKind;

DeviceGrid small_grid() {
    DeviceGrid grid;
    grid.gemm_shapes = 2;
    grid.gemm_low = 32;
    grid.gemm_high = 256;
    grid.sustained_size = 64;
    grid.expert_shapes = 5;
    grid.memory_high = 1 << 16;
    grid.copy_high = 1 << 18;
    return grid;
}

struct Timed {
    DeviceGrid grid = small_grid();
    measure::DeviceSampling sampling;
    measure::SampleCounts counts;
    HostDriver driver;
    DeviceTimer timer{driver, {}, 0, quick(sampling), nullptr, counts};
    DeviceOperands operands{driver, measure::kOperandParts, measure::operand_bytes(grid)};

    static const measure::DeviceSampling& quick(measure::DeviceSampling& sampling) {
        sampling.warm_ups = sampling.samples = 1;
        sampling.busy_seconds = sampling.rest_seconds = 0;
        sampling.sustained_seconds = 1e-3;
        return sampling;
    }
    bool asked_for(const std::string& name) const {
        for (const Asked& asked : driver.log)
            if (asked.name == name) return true;
        return false;
    }
};

TEST(CalibrationInStreams, TransposesEightBits) {
    Timed timed;
    EXPECT_EQ(measure::time_transposes(timed.timer, timed.operands, timed.grid).size(), 16U);
    EXPECT_TRUE(timed.asked_for("transpose"));
}

TEST(CalibrationInStreams, MultipliesRowsOfExperts) {
    Timed timed;
    const auto timings =
        measure::time_expert_products(timed.driver, timed.timer, timed.operands, timed.grid);
    EXPECT_EQ(timings.size(), 3U * 5);
    std::map<std::int64_t, int> experts;
    for (const fit::ExpertTiming& timing : timings) {
        EXPECT_GT(timing.time_us, 0);
        EXPECT_GT(timing.product.flops(), 0);
        ++experts[timing.product.experts];
    }
    EXPECT_EQ(experts.begin()->first, 2);
    EXPECT_GT(experts.size(), 2U);
    EXPECT_TRUE(timed.asked_for("grouped_gemm"));
}

TEST(CalibrationInStreams, CopiesPinnedMemoryBothWays) {
    Timed timed;
    const measure::HostCopyTimings copies = measure::time_host_copies(
        timed.driver, timed.timer, timed.operands, timed.grid, timed.sampling);
    EXPECT_EQ(copies.to_device.size(), 2U);  // 64 and 256 KiB
    EXPECT_EQ(copies.from_device.size(), 2U);
    EXPECT_EQ(copies.both_ways.size(), 2U);
    EXPECT_GT(copies.copies_beside_products, 0);
    EXPECT_GT(copies.products_beside_copies, 0);
}

TEST(CalibrationInStreams, TimesCollectivesOfDevices) {
    constexpr std::int64_t kDevices = 3;
    measure::CollectiveGrid grid;
    grid.most_bytes = 1 << 17;
    grid.calls = 2;
    grid.steps = 2;
    grid.product_size = 32;
    grid.product_dtype = plan::DType::fp32;
    grid.overlap_bytes = 1 << 12;
    grid.workspace_bytes = 1 << 10;
    runtime::StreamBackendOptions options;
    options.streams.time_ops = true;
    runtime::StreamBackend backend(host_devices(kDevices), std::nullopt, options);
    const auto now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    const auto timings = measure::time_collectives(
        kDevices, backend, grid, now, [] { return "bus device"; }, [](const std::string&) {});
    ASSERT_TRUE(timings.has_value());
    EXPECT_EQ(timings->largest_bytes, 1 << 17);
    EXPECT_EQ(timings->places.size(), static_cast<std::size_t>(kDevices));
    std::map<OpKind, int> timed;
    for (const measure::CollectiveRow& row : timings->rows)
        if (row.bytes > 1 << 16) ++timed[row.kind];
    EXPECT_EQ(timed, (std::map<OpKind, int>{{OpKind::all_reduce, 1},
                                            {OpKind::all_gather, 2},
                                            {OpKind::reduce_scatter, 2},
                                            {OpKind::all_to_all, 1},
                                            {OpKind::shift, 1}}));
    EXPECT_EQ(timings->overlap.size(), 2U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
