// The checks before a run on devices with streams and memory of their own, whose collectives are a
// library's: what ranks on GPUs do.
#include <map>

#include <gtest/gtest.h>

#include "calib/preflight/timings.hpp"
#include "plan/assemble/build_plan.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

TEST(PreflightInStreams, TimesEveryCheckOnDevices) {
    constexpr std::int64_t kDevices = 5;
    preflight::Sizes sizes = preflight::sizes_of(plan::build_plan(scenario(kGpt, {})), false);
    sizes.host_is_apart = true;
    sizes.copy_bytes = 1 << 16;
    sizes.message_bytes = 1 << 14;
    sizes.sum_bytes = 1 << 15;
    const preflight::PreflightPlan plan = preflight::preflight_plan(kDevices, sizes);
    runtime::StreamBackendOptions options;
    options.streams.time_ops = true;
    runtime::StreamBackend backend(host_devices(kDevices), std::nullopt, options);
    const preflight::Measured measured =
        preflight::measure(plan, backend, {1, 2}, [](runtime::ControlPlane&) {});
    std::map<preflight::Check, std::int64_t> timed;
    for (const preflight::Timing& timing : measured.timings) {
        EXPECT_GT(timing.seconds, 0);
        ++timed[timing.check];
    }
    for (const preflight::Check check : {preflight::Check::product, preflight::Check::memory,
                                         preflight::Check::to_host, preflight::Check::from_host})
        EXPECT_EQ(timed[check], kDevices);
    EXPECT_EQ(timed[preflight::Check::pair], kDevices * (kDevices - 1) / 2);
    EXPECT_EQ(timed[preflight::Check::sum], 1);
    EXPECT_EQ(measured.hosts.size(), static_cast<std::size_t>(kDevices));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
