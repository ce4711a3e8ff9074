// What a sample is, and which samples count; on a device whose clock is a formula.
#include "calib/measure/device_timer.hpp"

#include <gmock/gmock.h>

#include "tests/calib/measure/fake_device.hpp"

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

using testing::ElementsAre;

struct DeviceTimerTest : testing::Test {
    FakeMachine machine;
    FakeDriver driver{machine};
    DeviceSampling sampling;
    SampleCounts counts;

    DeviceTimer timer(runtime::GpuMonitor* monitor = nullptr) {
        sampling.rest_seconds = 0;
        return DeviceTimer(driver, {}, machine.cache_bytes, sampling, monitor, counts);
    }
};

TEST_F(DeviceTimerTest, WarmUpsPrecedeSamples) {
    DeviceTimer own = timer();
    int calls = 0;
    const double us = own.cold_us([&](runtime::Kernels&) {
        machine.take("kernel", ++calls <= 3 ? 1000 : 50);  // slow until it is warm
    });
    EXPECT_EQ(calls, 3 + 20);
    EXPECT_EQ(us, 50);
    EXPECT_EQ(counts.kernels, 1);
    EXPECT_EQ(counts.samples, 20);
}

TEST_F(DeviceTimerTest, ColdSamplesBeginWithAFlush) {
    DeviceTimer own = timer();
    sampling.warm_ups = 1;
    sampling.samples = 1;
    machine.keeps_log = true;
    own.cold_us([&](runtime::Kernels&) { machine.take("kernel", 50); });
    EXPECT_THAT(machine.log, ElementsAre("flush", "record", "kernel", "record",  // warm-up
                                         "flush", "record", "kernel", "record"));
}

// 100 us are two calls of 50 us; one before them brings the operands into cache.
TEST_F(DeviceTimerTest, WarmSamplesRepeatShortCalls) {
    DeviceTimer own = timer();
    sampling.warm_ups = 1;
    sampling.samples = 1;
    machine.keeps_log = true;
    const double us = own.warm_us([&](runtime::Kernels&) { machine.take("kernel", 50); });
    EXPECT_EQ(us, 50);
    EXPECT_THAT(machine.log,
                ElementsAre("flush", "record", "kernel", "record",  // warm-up
                            "flush", "kernel", "record", "kernel", "kernel", "record"));
}

// Of five samples two have a low clock, two take 10 us, one 12: the median of all would be 12.
TEST_F(DeviceTimerTest, DropsSamplesWhoseClockDeviates) {
    FakeMonitor monitor({1980, 1900, 1980, 1900, 1960});
    DeviceTimer own = timer(&monitor);
    sampling.warm_ups = 0;
    sampling.samples = 15;
    const double times[] = {10, 20, 10, 20, 12};
    int calls = 0;
    const double us =
        own.cold_us([&](runtime::Kernels&) { machine.take("kernel", times[calls++ % 5]); });
    EXPECT_EQ(us, 10);
    EXPECT_EQ(counts.samples, 25);  // five times three count
    EXPECT_EQ(counts.dropped, 10);
    EXPECT_EQ(counts.without_clock, 0);
}

TEST_F(DeviceTimerTest, EverySampleCountsWhereNobodyTellsTheClock) {
    DeviceTimer own = timer();
    own.cold_us([&](runtime::Kernels&) { machine.take("kernel", 50); });
    EXPECT_EQ(counts.dropped, 0);
    EXPECT_EQ(counts.without_clock, 20);
}

TEST_F(DeviceTimerTest, SustainedRunsAreSlowerThanBursts) {
    DeviceTimer own = timer();
    int in_row = 0;
    const double before = machine.device_us;
    machine.keeps_log = true;
    const DeviceTimer::Sustained found = own.sustained([&](runtime::Kernels&) {
        in_row = machine.log.back() == "flush" ? 0 : in_row + 1;
        machine.log.resize(1);
        machine.take("kernel", in_row > 100 ? 1250 : 1000);
    });
    EXPECT_EQ(found.burst_us, 1000);
    EXPECT_EQ(found.sustained_us, 1250);
    EXPECT_GT(machine.device_us - before, 10e6);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
