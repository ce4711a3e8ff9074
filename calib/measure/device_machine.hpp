// A device of this machine: what it is, by the driver and NVML, and its profile.
#pragma once

#include <functional>
#include <string>

#include "calib/measure/device_profile.hpp"
#include "runtime/machine/library_loader.hpp"

namespace orrery::measure {

// Throws runtime::DeviceError where the driver does not tell what the GPU of this number is.
DeviceMachine device_machine(runtime::LibraryLoader& loader, int number);

// Of the GPU of this number among those that are visible, which `make_driver` makes drivers of.
// Takes some minutes; `progress` is told what is being timed. Throws as device_machine and
// profile_of, and what the driver throws.
Calibration measure_device_profile(const DeviceOptions& options, const MakeDriver& make_driver,
                                   runtime::LibraryLoader& loader, int number,
                                   const std::function<void(const std::string&)>& progress);

}  // namespace orrery::measure
