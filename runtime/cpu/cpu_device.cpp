#include "runtime/cpu/cpu_device.hpp"

namespace orrery::runtime {

// A driver frees its memory when it goes: each arena has one of its own.
std::unique_ptr<Device> CpuDevices::make(const BoundProgram& program,
                                         const std::string& offload_path) {
    StreamOptions options;
    options.poison = options_.poison;
    options.guard = options_.guard;
    options.delay_seed = options_.delay_seed;
    options.clock_offset_ns = options_.clock_offset_ns;
    options.offload_path = offload_path;
    driver_.reset();
    driver_ = std::make_unique<CpuDriver>(options_.threads, options_.alone);
    return std::make_unique<StreamDevice>(program, communicator_, *driver_, options, &recorder_);
}

}  // namespace orrery::runtime
