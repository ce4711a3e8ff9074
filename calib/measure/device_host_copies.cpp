// Copies to and from memory of the host that the driver has locked in place, as offloading makes
// them: by the marks of the device, one way, both ways at once, and beside products.
#include <algorithm>

#include "calib/measure/device_timings.hpp"
#include "calib/measure/timing.hpp"

namespace orrery::measure {
namespace {

using plan::DType;

constexpr std::int64_t kLeastBytes = 1 << 16;
constexpr std::int64_t kStep = 4;
constexpr int kSamples = 7;

// A queue of copies and two marks in it.
class CopyLane {
  public:
    explicit CopyLane(runtime::StreamDriver& driver)
        : driver_(driver),
          stream_(driver.create_stream(runtime::StreamUse::copies)),
          begin_(driver.create_event(true)),
          end_(driver.create_event(true)) {}

    void issue(std::byte* to, const std::byte* from, std::int64_t bytes, int times = 1) {
        driver_.record(begin_, stream_);
        for (int i = 0; i < times; ++i)
            driver_.copy(stream_, to, from, bytes);
        driver_.record(end_, stream_);
    }
    void await() const {
        while (!driver_.passed(end_)) {
        }
    }
    // Since this or another lane was at its first mark; once all are at their ends.
    double us_since(const CopyLane& first) const {
        return static_cast<double>(driver_.nanoseconds(first.begin_, end_)) / 1e3;
    }
    double us() const { return us_since(*this); }

  private:
    runtime::StreamDriver& driver_;
    runtime::Stream stream_;
    runtime::Event begin_, end_;
};

template <typename Sample>
double median_of(int warm_ups, const Sample& sample) {
    for (int i = 0; i < warm_ups; ++i)
        sample();
    std::vector<double> times;
    for (int i = 0; i < kSamples; ++i)
        times.push_back(sample());
    return median(std::move(times));
}

struct Ways {
    CopyLane to, from;
    std::byte *device_in, *device_out, *host_in, *host_out;

    void send(std::int64_t bytes, int times = 1) { to.issue(device_in, host_in, bytes, times); }
    void fetch(std::int64_t bytes, int times = 1) {
        from.issue(host_out, device_out, bytes, times);
    }
};

void time_sizes(Ways& ways, const DeviceGrid& grid, int warm_ups, HostCopyTimings& timings) {
    for (std::int64_t bytes = kLeastBytes; bytes <= grid.copy_high; bytes *= kStep) {
        timings.to_device.emplace_back(bytes, median_of(warm_ups, [&] {
                                           ways.send(bytes);
                                           ways.to.await();
                                           return ways.to.us();
                                       }));
        timings.from_device.emplace_back(bytes, median_of(warm_ups, [&] {
                                             ways.fetch(bytes);
                                             ways.from.await();
                                             return ways.from.us();
                                         }));
        timings.both_ways.emplace_back(bytes, median_of(warm_ups, [&] {
                                           ways.send(bytes);
                                           ways.fetch(bytes);
                                           ways.to.await();
                                           ways.from.await();
                                           return std::max(ways.to.us(),
                                                           ways.from.us_since(ways.to));
                                       }));
    }
}

// The largest copies one way beside products, which go on longer than they do; then products beside
// copies that do.
void time_beside_products(Ways& ways, DeviceTimer& timer, const DeviceTimer::Call& product,
                          int warm_ups, HostCopyTimings& timings) {
    const auto& [bytes, alone_us] = timings.from_device.back();
    const double product_us = timer.row_us(product, 1);
    const int products = 2 + static_cast<int>(2 * alone_us / product_us);
    const double beside_us = median_of(warm_ups, [&, bytes = bytes] {
        for (int i = 0; i < products; ++i)
            product(timer.kernels());
        ways.fetch(bytes);
        ways.from.await();
        const double us = ways.from.us();
        timer.drain();
        return us;
    });
    timings.copies_beside_products = beside_us / alone_us;
    constexpr int kInRow = 4;
    const double row_us = median_of(warm_ups, [&] { return timer.row_us(product, kInRow); });
    // A row begins behind a flush of the cache: twice as long as both is enough.
    const int copies = 2 + static_cast<int>(4 * kInRow * row_us / alone_us);
    const double row_beside_us = median_of(warm_ups, [&, bytes = bytes] {
        ways.fetch(bytes, copies);
        const double us = timer.row_us(product, kInRow);
        ways.from.await();
        return us;
    });
    timings.products_beside_copies = row_beside_us / row_us;
}

}  // namespace

HostCopyTimings time_host_copies(runtime::StreamDriver& driver, DeviceTimer& timer,
                                 DeviceOperands& operands, const DeviceGrid& grid,
                                 const DeviceSampling& sampling) {
    HostCopyTimings timings;
    operands.fill(DType::bf16);
    constexpr std::int64_t kDeviceIn = 3, kDeviceOut = 4;  // parts; products have the others
    Ways ways{CopyLane(driver),
              CopyLane(driver),
              static_cast<std::byte*>(operands[kDeviceIn].data),
              static_cast<std::byte*>(operands[kDeviceOut].data),
              driver.allocate_host(grid.copy_high),
              driver.allocate_host(grid.copy_high)};
    time_sizes(ways, grid, sampling.warm_ups, timings);
    time_beside_products(ways, timer, large_product(operands, grid), sampling.warm_ups, timings);
    return timings;
}

}  // namespace orrery::measure
