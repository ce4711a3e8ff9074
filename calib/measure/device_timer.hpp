// How long a device with queues takes for a call, by its own clock: two timed marks around it, on
// data that is there, with the queue filled before the first mark is passed. A step's kernels run
// so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/machine/gpu_monitor.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::measure {

struct DeviceSampling {
    int warm_ups = 3;
    int samples = 20;                  // that count; of which the median is taken
    double seconds_per_sample = 1e-4;  // a short call is repeated until a sample is as long
    double busy_seconds = 0.5;         // of work before a family of kernels: clocks rise with it
    double sustained_seconds = 10;     // of one product after the other
    double rest_seconds = 1;           // before that: its first calls are a burst again
    double largest_clock_deviation = 0.03;  // from the median of a kernel's samples; more: dropped
};

// Over all kernels of a calibration.
struct SampleCounts {
    std::int64_t kernels = 0;
    std::int64_t samples = 0;  // those that were dropped among them
    std::int64_t dropped = 0;  // the clock deviated
    std::int64_t without_clock = 0;
};

// A queue of the device for measurement alone, and what its samples need.
class DeviceTimer {
  public:
    using Call = std::function<void(runtime::Kernels&)>;
    struct Workspace {
        std::byte* memory = nullptr;
        std::int64_t bytes = 0;
    };

    // `monitor` may be null; everything must outlive the object. Memory is flushed by writing
    // several times `cache_bytes`.
    DeviceTimer(runtime::StreamDriver& driver, Workspace workspace, std::int64_t cache_bytes,
                const DeviceSampling& sampling, runtime::GpuMonitor* monitor, SampleCounts& counts);

    // Microseconds of one call with operands as the call before left them, in cache where they
    // fit: what short products find in a step. Short calls follow one another in a sample.
    double warm_us(const Call& call);

    // With operands in memory: the cache is flushed before each sample.
    double cold_us(const Call& call);

    // One sample after a flush, without warm-ups and not counted.
    double once_us(const Call& call);

    // The call again and again, for sampling.busy_seconds of the device's time.
    void keep_busy(const Call& call);

    struct Sustained {
        double burst_us = 0;      // after a rest
        double sustained_us = 0;  // over the second half of sampling.sustained_seconds
    };
    Sustained sustained(const Call& call);

    // Of `calls` in a row that the device has before it begins.
    double row_us(const Call& call, int calls);

    // What is timed over many shapes asks before each whether it goes on; null: it does.
    void go_on_while(std::function<bool()> in_time) { in_time_ = std::move(in_time); }
    bool in_time() const { return !in_time_ || in_time_(); }

    runtime::Kernels& kernels() { return *kernels_; }
    // Returns when what was given is done.
    void drain();

  private:
    struct Sample {
        double us = 0;
        std::optional<int> clock_MHz;
    };

    void flush();
    Sample sample(const Call& call, int calls, bool cold);
    double median_of_samples(const Call& call, int calls, bool cold);
    double enqueue_and_wait(const Call& call, int calls, std::optional<int>* clock_MHz);

    runtime::StreamDriver& driver_;
    const DeviceSampling& sampling_;
    runtime::GpuMonitor* monitor_;
    SampleCounts& counts_;
    runtime::Stream stream_;
    runtime::Event begin_, end_;
    std::unique_ptr<runtime::Kernels> kernels_;
    std::int64_t flushed_elements_;
    std::byte* flushed_;
    std::function<bool()> in_time_;
};

}  // namespace orrery::measure
