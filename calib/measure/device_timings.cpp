#include "calib/measure/device_profile.hpp"

#include <utility>

#include "plan/scenario/scenario.hpp"

namespace orrery::measure {
namespace {

using plan::DType;

// Kernels by themselves, in memory that goes back when they are done.
void time_kernels(const DeviceOptions& options, const DeviceAtHand& device,
                  const runtime::GpuFacts& gpu, DeviceTimings& timings,
                  const std::function<void(const std::string&)>& progress) {
    // What plans give products by default, to the byte: with more, the library may offer an
    // algorithm that no run is offered.
    const auto workspace_bytes = static_cast<std::int64_t>(plan::Framework().workspace_mb * 1e6);
    const auto driver = device.make_driver();
    DeviceTimer timer(*driver, {driver->allocate(workspace_bytes), workspace_bytes},
                      gpu.cache_bytes, options.sampling, device.monitor, timings.counts);
    DeviceOperands operands(*driver, kOperandParts, operand_bytes(options.kernels));
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
        progress("matrix products, " + std::string(plan::name(dtype)));
        timings.products.push_back(time_products(timer, operands, options.kernels, dtype));
    }
    progress("attention");
    timings.attention = time_attention(timer, operands, options.kernels);
    timings.attention_products = time_attention_products(timer, operands, options.kernels);
    progress("memory-bound kernels");
    timings.moves = time_moves(timer, operands, options.kernels, resident_bytes(gpu));
    progress("launches and copies");
    timings.launches = time_launches(timer, operands, device.now);
    timings.copies =
        time_copies(*driver, timer, operands, options.kernels, options.sampling, device.now);
}

}  // namespace

StepGrid device_steps() {
    StepGrid grid;
    grid.models = 10;
    grid.least_width = 512;
    grid.most_width = 4096;
    grid.least_sequence = 256;
    grid.most_sequence = 4096;
    grid.least_vocabulary = 2048;
    grid.most_vocabulary = 32768;
    grid.steps = 1;
    grid.micro_batches = 1;
    grid.head_dims = {64};
    grid.precision = "bf16";
    return grid;
}

double resident_bytes(const runtime::GpuFacts& gpu) {
    return static_cast<double>(gpu.cache_bytes) / 2;
}

DeviceTimings time_device(const DeviceOptions& options, const DeviceAtHand& device,
                          const runtime::GpuFacts& gpu,
                          const std::function<void(const std::string&)>& progress) {
    DeviceTimings timings;
    if (device.monitor != nullptr) timings.before = device.monitor->read();
    time_kernels(options, device, gpu, timings, progress);
    progress("memory-bound kernels in the steps of small models");
    SamplingBackend backend(device.make_driver, gpu.cache_bytes, options.sampling, device.monitor,
                            timings.counts);
    StepTimings steps = time_steps(1, backend, options.steps, options.scenarios_dir, {});
    timings.kernels = std::move(steps.memory);
    if (device.monitor != nullptr) timings.after = device.monitor->read();
    return timings;
}

}  // namespace orrery::measure
