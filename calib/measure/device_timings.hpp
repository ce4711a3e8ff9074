// Timings of a device's kernels over sizes, as the fits take them: everything by requests to the
// driver's kernels, no plan in between. What only a step has (memory-bound kernels by kind) is
// timed in device_steps.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/fit_memory.hpp"
#include "calib/measure/device_operands.hpp"
#include "calib/measure/device_timer.hpp"
#include "calib/measure/kernel_timings.hpp"

namespace orrery::measure {

// Sizes, log-uniform by a fixed seed. The defaults take an H200 about two minutes, whole steps
// included: an estimate by its peaks, of which 33 s are the three sustained runs.
struct DeviceGrid {
    int gemm_shapes = 100;                          // of each element type, in three forms
    std::int64_t gemm_low = 64, gemm_high = 16384;  // of m, n and k; multiples of 64
    double gemm_most_flops = 4e12, gemm_most_flops_fp32 = 3e11;
    std::int64_t sustained_size = 8192;  // m, n and k; of fp32 half of it
    int expert_shapes = 15;              // of products of experts, each in three forms
    std::vector<std::int64_t> head_dims = {64, 128};
    int attention_shapes = 24;  // of each head size
    std::int64_t least_sequence = 256, most_sequence = 8192;
    double attention_most_flops = 3e10;
    double memory_low = 1 << 16, memory_high = 1 << 30;  // bytes of all operands
    std::int64_t copy_high = 256 << 20;
};

// A family of one element type.
struct ProductTimings {
    plan::DType dtype = plan::DType::bf16;
    std::vector<fit::GemmRow> rows;
    DeviceTimer::Sustained sustained;
    // Of eight bits, where they are multiplied so: with a scale for each row; each of a product
    // that is in `rows` too.
    struct OfScaledRows {
        std::size_t row = 0;  // of `rows`
        double time_us = 0;
    };
    std::vector<OfScaledRows> of_scaled_rows = {};
};

// `operands` of all of these: so many parts, each for any operand of the grid.
inline constexpr std::int64_t kOperandParts = 5;
std::int64_t operand_bytes(const DeviceGrid& grid);

ProductTimings time_products(DeviceTimer& timer, DeviceOperands& operands, const DeviceGrid& grid,
                             plan::DType dtype);

// Of sustained_size each way, in bf16.
DeviceTimer::Call large_product(const DeviceOperands& operands, const DeviceGrid& grid);

// Both operands by rows, as every plan for CUDA multiplies them (training.fp8_transposes), with a
// scale for each, into bf16: E4M3, of gradients E5M2 by E4M3. Of every eighth shape also with
// scales of rows, where `scaled_rows` says that the device multiplies such.
ProductTimings time_eight_bit_products(DeviceTimer& timer, DeviceOperands& operands,
                                       const DeviceGrid& grid, bool scaled_rows);

// bf16, causal.
AttentionTimings time_attention(DeviceTimer& timer, DeviceOperands& operands,
                                const DeviceGrid& grid);

// bf16: scores of unfused attention.
std::vector<ProductRow> time_attention_products(DeviceTimer& timer, DeviceOperands& operands,
                                                const DeviceGrid& grid);

// fp32 kernels that only move bytes: of up to resident_bytes with the operands in cache, beyond
// with none there.
std::vector<fit::MemoryRow> time_moves(DeviceTimer& timer, DeviceOperands& operands,
                                       const DeviceGrid& grid, double resident_bytes);

// Of matrices in eight bits, as plan::Transpose has them, with nothing in cache.
std::vector<fit::MemoryRow> time_transposes(DeviceTimer& timer, DeviceOperands& operands,
                                            const DeviceGrid& grid);

struct LaunchTimings {
    double host_us = 0;    // to hand over one call
    double device_us = 0;  // of a kernel with next to nothing to do, one behind the other
};
// `now`: seconds of the host's clock.
LaunchTimings time_launches(DeviceTimer& timer, DeviceOperands& operands,
                            const std::function<double()>& now);

// Microseconds by bytes, ascending.
using CopyRows = std::vector<std::pair<std::int64_t, double>>;
struct CopyTimings {
    CopyRows to_device, from_device;  // of ordinary memory of the host, call to return
    CopyRows on_device;               // bytes are read and written
};
CopyTimings time_copies(runtime::StreamDriver& driver, DeviceTimer& timer, DeviceOperands& operands,
                        const DeviceGrid& grid, const DeviceSampling& sampling,
                        const std::function<double()>& now);

// Of memory of the host that is locked in place, by the device's marks. The largest beside
// products: what either takes over what it takes alone.
struct HostCopyTimings {
    CopyRows to_device, from_device;
    CopyRows both_ways;  // at once, so many bytes each way, until both have come
    double copies_beside_products = 1, products_beside_copies = 1;
};
HostCopyTimings time_host_copies(runtime::StreamDriver& driver, DeviceTimer& timer,
                                 DeviceOperands& operands, const DeviceGrid& grid,
                                 const DeviceSampling& sampling);

}  // namespace orrery::measure
