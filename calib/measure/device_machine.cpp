#include "calib/measure/device_machine.hpp"

#include <chrono>

#include <fmt/format.h>

#include "calib/measure/machine.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::measure {

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
