#include "calib/measure/device_machine.hpp"

#include <chrono>

#include <fmt/format.h>

#include "calib/measure/machine.hpp"
#include "runtime/backends/rank_devices.hpp"
#include "runtime/launch/bind_thread.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::measure {
namespace {

// This thread, and those that it starts, to the cores of the GPU's NUMA node: what they lock of the
// host's memory is of there. Says which they are.
std::string run_near(runtime::LibraryLoader& loader, int number) {
    constexpr auto kWherePossible = plan::BindTo::automatic;
    runtime::RankDevice device = runtime::rank_devices(
        loader, {.ranks = number + 1, .devices = number + 1})[static_cast<std::size_t>(number)];
    device.local_rank = 0;
    const runtime::Binding binding = runtime::tried(
        kWherePossible,
        runtime::bind_to_gpus(kWherePossible, runtime::processors_of_process(), {device}));
    if (const runtime::RankBinding* rank = binding.of(0)) runtime::bind_thread(*rank);
    return "bound: " + runtime::binding_text(binding);
}

}  // namespace

DeviceMachine device_machine(runtime::LibraryLoader& loader, int number) {
    const auto gpu = runtime::visible_gpu(loader, number);
    if (!gpu)
        throw runtime::DeviceError(
            fmt::format("the driver (libcuda.so.1) does not tell what GPU {} is; see orrery "
                        "doctor",
                        number));
    DeviceMachine machine;
    machine.gpu = *gpu;
    runtime::Machine facts;
    runtime::inspect_nvidia(loader, facts);
    facts.libraries = runtime::inspect_libraries(loader);
    machine.driver = facts.driver.version;
    if (facts.driver.cuda) machine.cuda = runtime::cuda_version_text(*facts.driver.cuda);
    machine.cublaslt = facts.library("cuBLASLt").version;
    machine.date = this_machine().date;
    return machine;
}

Calibration measure_device_profile(const DeviceOptions& options, const MakeDriver& make_driver,
                                   runtime::LibraryLoader& loader, int number,
                                   const std::function<void(const std::string&)>& progress) {
    // What it takes from there is looked at before minutes are spent.
    if (!options.base_path.empty()) sim::load_profile(options.base_path);
    DeviceMachine machine = device_machine(loader, number);
    machine.host_cores = run_near(loader, number);
    const auto monitor = runtime::watch_gpu(loader, machine.gpu.bus_id);
    if (monitor) machine.power_limit_w = monitor->power_limit_w();
    const auto now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    const DeviceTimings timings =
        time_device(options, {make_driver, monitor.get(), now}, machine.gpu, progress);
    return profile_of(timings, options, machine);
}

}  // namespace orrery::measure
