// What one GPU is and how it does while it works: clocks, power, temperature. A timing is worth
// little without them: the same kernel on the same model of GPU differs by several percent with
// the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/machine/library_loader.hpp"

namespace orrery::runtime {

// As the driver tells it of a GPU that programs of CUDA get.
struct GpuFacts {
    std::string name;
    std::string bus_id;             // of PCI, "00000000:1B:00.0"
    std::int64_t memory_bytes = 0;  // that a process can have
    std::int64_t cache_bytes = 0;   // L2
    int multiprocessors = 0;
    int compute_capability = 0;  // 90 for 9.0

    // cuBLAS's documentation, cublasLtMatmul(): FP8 since Ada; scales of rows
    // (CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F) on Hopper alone.
    bool multiplies_eight_bits() const { return compute_capability >= 89; }
    bool multiplies_scaled_rows() const { return compute_capability == 90; }
};

// Of the GPU with this number among those that are visible (CUDA_VISIBLE_DEVICES). Nothing where
// there is no driver, no such GPU, or the driver leaves one of these open.
std::optional<GpuFacts> visible_gpu(LibraryLoader& loader, int number);

// What is not said is absent.
struct GpuReading {
    std::optional<int> clock_MHz;  // of the multiprocessors
    std::optional<int> memory_clock_MHz;
    std::optional<double> power_w;
    std::optional<double> temperature_c;
};

class GpuMonitor {
  public:
    GpuMonitor() = default;
    virtual ~GpuMonitor() = default;
    GpuMonitor(const GpuMonitor&) = delete;
    GpuMonitor& operator=(const GpuMonitor&) = delete;

    virtual GpuReading read() = 0;
    virtual std::optional<double> power_limit_w() = 0;
};

// By NVML. Null where it is not there, or does not know the GPU.
std::unique_ptr<GpuMonitor> watch_gpu(LibraryLoader& loader, const std::string& bus_id);

}  // namespace orrery::runtime
