#include "calib/measure/device_profile.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/scenario/scenario.hpp"

namespace orrery::measure {
namespace {

using plan::DType;

// A part of the calibration, and how much of the time that is left it may take, beside the others
// that are left.
struct Section {
    std::string name;
    double weight = 1;
    std::function<void()> time;
};

// Shares out the seconds: what a section does not need is for those behind it. Those of which a
// profile has to have something time that much however late it is.
class Sections {
  public:
    Sections(const DeviceOptions& options, const DeviceAtHand& device, double weight)
        : device_(device), end_(device.now() + options.seconds), weight_(weight) {}

    // `timer`: what they are timed by; null: by what asks in_time() itself.
    void perform(const std::vector<Section>& sections, DeviceTimer* timer, DeviceTimings& timings,
                 const std::function<void(const std::string&)>& progress) {
        for (const Section& section : sections) {
            progress(section.name);
            const double now = device_.now();
            until_ = now + std::max(0.0, end_ - now) * section.weight / weight_;
            weight_ -= section.weight;
            cut_ = false;
            if (timer != nullptr) timer->go_on_while([this] { return in_time(); });
            section.time();
            if (cut_) timings.left_out.push_back(section.name);
        }
    }

    bool in_time() {
        const bool in_time = device_.now() < until_;
        cut_ = cut_ || !in_time;
        return in_time;
    }

  private:
    const DeviceAtHand& device_;
    double end_, weight_, until_ = 0;
    bool cut_ = false;
};

double weight_of(const std::vector<Section>& sections) {
    double weight = 0;
    for (const Section& section : sections)
        weight += section.weight;
    return weight;
}

// Kernels by themselves, in the order of what steps take of them.
std::vector<Section> kernel_sections(const DeviceOptions& options, const DeviceAtHand& device,
                                     const runtime::GpuFacts& gpu, runtime::StreamDriver& driver,
                                     DeviceTimer& timer, DeviceOperands& operands,
                                     DeviceTimings& timings) {
    const DeviceGrid& grid = options.kernels;
    const auto products = [&](DType dtype) {
        return
            [&, dtype] { timings.products.push_back(time_products(timer, operands, grid, dtype)); };
    };
    std::vector<Section> sections{
        {"matrix products, bf16", 4, products(DType::bf16)},
        {"attention", 4,
         [&] {
             timings.attention = time_attention(timer, operands, grid);
             timings.attention_products = time_attention_products(timer, operands, grid);
         }},
        {"memory-bound kernels", 1,
         [&] { timings.moves = time_moves(timer, operands, grid, resident_bytes(gpu)); }},
        {"launches and copies", 1,
         [&] {
             timings.launches = time_launches(timer, operands, device.now);
             timings.copies =
                 time_copies(driver, timer, operands, grid, options.sampling, device.now);
             timings.host_copies =
                 time_host_copies(driver, timer, operands, grid, options.sampling);
         }},
        {"matrix products, fp32", 2, products(DType::fp32)}};
    if (gpu.multiplies_eight_bits())
        sections.push_back({"matrix products, fp8", 4, [&] {
                                timings.products.push_back(time_eight_bit_products(
                                    timer, operands, grid, gpu.multiplies_scaled_rows()));
                                timings.transposes = time_transposes(timer, operands, grid);
                            }});
    sections.push_back({"matrix products, fp16", 2, products(DType::fp16)});
    sections.push_back({"products of experts", 2, [&] {
                            timings.experts = time_expert_products(driver, timer, operands, grid);
                        }});
    return sections;
}

// The others have rows of bf16 steps.
void add_eight_bit_kernels(const std::vector<fit::MemoryRow>& of_steps,
                           std::vector<fit::MemoryRow>& kernels) {
    for (const fit::MemoryRow& row : of_steps)
        for (const plan::OpKind kind : {plan::OpKind::amax, plan::OpKind::quantize})
            if (row.kernel == plan::name(kind)) kernels.push_back(row);
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

StepGrid device_eight_bit_steps() {
    StepGrid grid = device_steps();
    grid.models = 4;
    grid.precision = "fp8";
    grid.fp8_recipe = "tensorwise";
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
    SamplingBackend backend(device.make_driver, gpu.cache_bytes, options.sampling, device.monitor,
                            timings.counts);
    Sections* clock = nullptr;
    const auto rows_of = [&](StepGrid grid) {
        grid.in_time = [&] { return clock->in_time(); };
        return time_steps(1, backend, grid, options.scenarios_dir, {}).memory;
    };
    std::vector<Section> of_steps{{"memory-bound kernels in the steps of small models", 6,
                                   [&] { timings.kernels = rows_of(options.steps); }}};
    if (gpu.multiplies_eight_bits())
        of_steps.push_back(
            {"casts to fp8 in the steps of small models", 2,
             [&] { add_eight_bit_kernels(rows_of(options.eight_bit_steps), timings.kernels); }});
    // What plans give products by default, to the byte: with more, the library may offer an
    // algorithm that no run is offered.
    const auto workspace_bytes = static_cast<std::int64_t>(plan::Framework().workspace_mb * 1e6);
    std::optional<Sections> sections;
    {  // in memory that goes back when they are done
        const auto driver = device.make_driver();
        DeviceTimer timer(*driver, {driver->allocate(workspace_bytes), workspace_bytes},
                          gpu.cache_bytes, options.sampling, device.monitor, timings.counts);
        DeviceOperands operands(*driver, kOperandParts, operand_bytes(options.kernels));
        const std::vector<Section> of_kernels =
            kernel_sections(options, device, gpu, *driver, timer, operands, timings);
        sections.emplace(options, device, weight_of(of_kernels) + weight_of(of_steps));
        sections->perform(of_kernels, &timer, timings, progress);
    }
    clock = &*sections;
    sections->perform(of_steps, nullptr, timings, progress);
    timings.kernels.insert(timings.kernels.end(), timings.transposes.begin(),
                           timings.transposes.end());
    if (device.monitor != nullptr) timings.after = device.monitor->read();
    return timings;
}

}  // namespace orrery::measure
