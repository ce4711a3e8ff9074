#include "calib/measure/device_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "calib/measure/timing.hpp"

namespace orrery::measure {
namespace {

// Written before each sample: enough that nothing of the operands is left in cache, and that the
// device is still at it while the host hands over a sample's calls.
constexpr std::int64_t kFlushedCaches = 4;
constexpr std::int64_t kLeastFlushed = 64 << 20;

constexpr double kLongUs = 10'000;        // the L2 fills in a hundredth of that
constexpr double kMostCalls = 16;         // of a sample
constexpr double kBatchSeconds = 0.05;    // of a sustained run, between looks at the clock
constexpr std::size_t kMostAttempts = 2;  // times the samples that shall count

// Those whose clock is near that of most; samples without a clock all are.
template <typename Sample>
std::vector<double> kept(const std::vector<Sample>& samples, double largest_deviation) {
    std::vector<double> clocks, times;
    for (const Sample& sample : samples)
        if (sample.clock_MHz) clocks.push_back(*sample.clock_MHz);
    const double usual = clocks.empty() ? 0 : median(clocks);
    for (const Sample& sample : samples)
        if (!sample.clock_MHz || std::fabs(*sample.clock_MHz - usual) <= largest_deviation * usual)
            times.push_back(sample.us);
    return times;
}

}  // namespace

DeviceTimer::DeviceTimer(runtime::StreamDriver& driver, Workspace workspace,
                         std::int64_t cache_bytes, const DeviceSampling& sampling,
                         runtime::GpuMonitor* monitor, SampleCounts& counts)
    : driver_(driver),
      sampling_(sampling),
      monitor_(monitor),
      counts_(counts),
      stream_(driver.create_stream(runtime::StreamUse::compute)),
      begin_(driver.create_event(true)),
      end_(driver.create_event(true)),
      kernels_(driver.kernels(stream_, workspace.memory, workspace.bytes)) {
    const std::int64_t bytes = std::max(kLeastFlushed, kFlushedCaches * cache_bytes);
    flushed_ = driver.allocate(bytes);
    flushed_elements_ = bytes / plan::size_bytes(plan::DType::fp32);
}

void DeviceTimer::flush() {
    kernels_->fill({flushed_elements_, 1.0, {flushed_, plan::DType::fp32}});
}

// The clock is read while the device works: an idle one says another.
double DeviceTimer::enqueue_and_wait(const Call& call, int calls, std::optional<int>* clock_MHz) {
    driver_.record(begin_, stream_);
    for (int i = 0; i < calls; ++i)
        call(*kernels_);
    driver_.record(end_, stream_);
    if (clock_MHz != nullptr && monitor_ != nullptr) *clock_MHz = monitor_->read().clock_MHz;
    while (!driver_.passed(end_)) {
    }
    return static_cast<double>(driver_.nanoseconds(begin_, end_)) / 1e3 / calls;
}

void DeviceTimer::drain() {
    driver_.record(end_, stream_);
    while (!driver_.passed(end_)) {
    }
}

DeviceTimer::Sample DeviceTimer::sample(const Call& call, int calls, bool cold) {
    flush();
    if (!cold) call(*kernels_);
    Sample sample;
    sample.us = enqueue_and_wait(call, calls, &sample.clock_MHz);
    return sample;
}

double DeviceTimer::median_of_samples(const Call& call, int calls, bool cold) {
    const auto wanted = static_cast<std::size_t>(sampling_.samples);
    std::vector<Sample> samples;
    std::vector<double> times;
    while (times.size() < wanted && samples.size() < kMostAttempts * wanted) {
        samples.push_back(sample(call, calls, cold));
        if (!samples.back().clock_MHz) ++counts_.without_clock;
        if (samples.size() >= wanted) times = kept(samples, sampling_.largest_clock_deviation);
    }
    counts_.kernels += 1;
    counts_.samples += static_cast<std::int64_t>(samples.size());
    counts_.dropped += static_cast<std::int64_t>(samples.size() - times.size());
    return median(std::move(times));
}

double DeviceTimer::warm_us(const Call& call) {
    double last_us = once_us(call);
    for (int i = 1; i < sampling_.warm_ups; ++i)
        last_us = once_us(call);
    // Beside a long call it is nothing that its operands come from memory.
    const bool cold = last_us > kLongUs;
    const double calls = std::ceil(sampling_.seconds_per_sample * 1e6 / std::max(last_us, 1e-3));
    return median_of_samples(call, static_cast<int>(std::clamp(calls, 1.0, kMostCalls)), cold);
}

double DeviceTimer::cold_us(const Call& call) {
    for (int i = 0; i < sampling_.warm_ups; ++i)
        once_us(call);
    return median_of_samples(call, 1, true);
}

double DeviceTimer::once_us(const Call& call) {
    return sample(call, 1, true).us;
}

double DeviceTimer::row_us(const Call& call, int calls) {
    for (int i = 0; i < 1 + calls / 32; ++i)  // for as long as the host takes to hand them over
        flush();
    return enqueue_and_wait(call, calls, nullptr);
}

void DeviceTimer::keep_busy(const Call& call) {
    constexpr int kCalls = 16;
    for (double seconds = 0; seconds < sampling_.busy_seconds;)
        seconds += std::max(enqueue_and_wait(call, kCalls, nullptr), 1.0) * kCalls * 1e-6;
}

DeviceTimer::Sustained DeviceTimer::sustained(const Call& call) {
    Sustained result;
    drain();
    std::this_thread::sleep_for(std::chrono::duration<double>(sampling_.rest_seconds));
    result.burst_us = warm_us(call);
    const int calls =
        std::max(1, static_cast<int>(std::ceil(kBatchSeconds * 1e6 / result.burst_us)));
    std::vector<double> late;
    const auto goes_on = [&](double seconds) {
        return late.empty() || (seconds < sampling_.sustained_seconds && in_time());
    };
    for (double seconds = 0; goes_on(seconds);) {
        const double us = enqueue_and_wait(call, calls, nullptr);
        seconds += us * calls * 1e-6;
        if (seconds > sampling_.sustained_seconds / 2) late.push_back(us);
    }
    result.sustained_us = median(std::move(late));
    return result;
}

}  // namespace orrery::measure
