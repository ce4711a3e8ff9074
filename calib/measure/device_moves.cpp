// Kernels that only move bytes, what it costs to start one, and copies.
#include <algorithm>

#include "calib/measure/device_timings.hpp"
#include "calib/measure/size_draw.hpp"
#include "calib/measure/timing.hpp"

namespace orrery::measure {
namespace {

using plan::DType;
using runtime::Kernels;

constexpr std::int64_t kWidth = 1024;  // of rows
constexpr std::int64_t kElementBytes = 4;

struct Moves {
    const char* name;
    bool reduction;
    std::int64_t tensors;  // of [rows, width], each counted once per read and once per write
    void (*call)(std::int64_t rows, const DeviceOperands& operands, Kernels& kernels);
};

const Moves kMoves[] = {
    {"add", false, 3,
     [](std::int64_t rows, const DeviceOperands& o, Kernels& kernels) {
         kernels.add({rows * kWidth, o[0], o[1], o[2]});
     }},
    {"cast", false, 2,
     [](std::int64_t rows, const DeviceOperands& o, Kernels& kernels) {
         kernels.cast({rows * kWidth, o[0], o[1]});
     }},
    {"adamw", false, 7,  // gradients; moments and parameters read and written
     [](std::int64_t rows, const DeviceOperands& o, Kernels& kernels) {
         runtime::AdamW adamw;
         adamw.elements = rows * kWidth;
         adamw.learning_rate = 1e-6;
         adamw.gradients = o[0];
         adamw.m = o[1];
         adamw.v = o[2];
         adamw.parameters = o[3];
         kernels.adamw(adamw);
     }},
    {"bias_gradient", true, 1,
     [](std::int64_t rows, const DeviceOperands& o, Kernels& kernels) {
         kernels.bias_gradient({rows, kWidth, o[0], o[4], false});
     }},
};

// Microseconds of what the host waits for.
double host_us(const DeviceSampling& sampling, const std::function<double()>& now,
               const std::function<void()>& call) {
    for (int i = 0; i < sampling.warm_ups; ++i)
        call();
    std::vector<double> times;
    for (int i = 0; i < sampling.samples; ++i) {
        const double start = now();
        call();
        times.push_back((now() - start) * 1e6);
    }
    return median(std::move(times));
}

}  // namespace

std::vector<fit::MemoryRow> time_moves(DeviceTimer& timer, DeviceOperands& operands,
                                       const DeviceGrid& grid, double resident_bytes) {
    constexpr double kStep = 1.5;
    std::vector<double> sizes{grid.memory_low};
    while (sizes.back() * kStep <= grid.memory_high)
        sizes.push_back(sizes.back() * kStep);
    std::vector<fit::MemoryRow> rows;
    operands.fill(DType::fp32);
    // Second moments are never negative.
    timer.kernels().fill({operands.part_bytes() / kElementBytes, 1.0, operands[2]});
    for (const Moves& moves : kMoves) {
        std::int64_t last = 0;
        for (const double wanted : sizes) {
            const std::int64_t count =
                std::min(static_cast<std::int64_t>(wanted) / moves.tensors, operands.part_bytes()) /
                (kWidth * kElementBytes);
            if (count <= last) continue;  // no other number of rows than the last
            last = count;
            const auto bytes = static_cast<double>(moves.tensors * count * kWidth * kElementBytes);
            const auto call = [&](Kernels& kernels) { moves.call(count, operands, kernels); };
            rows.push_back({moves.name, moves.reduction, bytes,
                            bytes <= resident_bytes ? timer.warm_us(call) : timer.cold_us(call)});
        }
    }
    return rows;
}

std::vector<fit::MemoryRow> time_transposes(DeviceTimer& timer, DeviceOperands& operands,
                                            const DeviceGrid& grid) {
    constexpr int kShapes = 16;
    constexpr std::int64_t kMultiple = 16;
    SizeDraw draw;
    std::vector<fit::MemoryRow> rows;
    operands.fill(DType::fp8_e4m3);
    for (int i = 0; i < kShapes; ++i) {
        const std::int64_t down = draw(grid.gemm_low, grid.gemm_high, kMultiple);
        const std::int64_t across = draw(grid.gemm_low, grid.gemm_high, kMultiple);
        const runtime::Transpose transpose{down, across, 1, operands[0], operands[1]};
        rows.push_back({std::string(plan::name(plan::OpKind::transpose)), false,
                        2 * static_cast<double>(down * across),
                        timer.cold_us([&](Kernels& kernels) { kernels.transpose(transpose); })});
    }
    return rows;
}

LaunchTimings time_launches(DeviceTimer& timer, DeviceOperands& operands,
                            const std::function<double()>& now) {
    constexpr int kHandedOver = 512;  // below what a driver's queue holds
    constexpr int kInRow = 64;
    constexpr int kSamples = 21;
    const auto tiny = [&](Kernels& kernels) {
        kernels.fill({1, 1.0, operands.as(DType::fp32, 0)});
    };
    std::vector<double> host, device;
    for (int i = 0; i < kSamples; ++i) {
        timer.drain();
        const double start = now();
        for (int call = 0; call < kHandedOver; ++call)
            tiny(timer.kernels());
        host.push_back((now() - start) * 1e6 / kHandedOver);
        timer.drain();
        device.push_back(timer.row_us(tiny, kInRow));
    }
    return {median(std::move(host)), median(std::move(device))};
}

CopyTimings time_copies(runtime::StreamDriver& driver, DeviceTimer& timer, DeviceOperands& operands,
                        const DeviceGrid& grid, const DeviceSampling& sampling,
                        const std::function<double()>& now) {
    constexpr std::int64_t kLeast = 1 << 16;
    constexpr std::int64_t kStep = 4;
    operands.fill(DType::fp32);
    std::vector<std::byte> host(static_cast<std::size_t>(grid.copy_high), std::byte{1});
    auto* const device = static_cast<std::byte*>(operands[0].data);
    CopyTimings timings;
    for (std::int64_t bytes = kLeast; bytes <= grid.copy_high; bytes *= kStep) {
        const auto part = std::span(host).first(static_cast<std::size_t>(bytes));
        timer.drain();
        timings.from_device.emplace_back(
            bytes, host_us(sampling, now, [&] { driver.read(device, part); }));
        timings.to_device.emplace_back(bytes,
                                       host_us(sampling, now, [&] { driver.write(device, part); }));
        timings.on_device.emplace_back(bytes, timer.cold_us([&](Kernels& kernels) {
            kernels.cast({bytes / kElementBytes, operands[0], operands[1]});
        }));
    }
    return timings;
}

}  // namespace orrery::measure
