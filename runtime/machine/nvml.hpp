// nvml.h, as far as it is asked: its library is loaded where there is a driver, its header may not
// be there. Functions return 0 when they have answered. Internal to runtime/machine.
#pragma once

namespace orrery::runtime {

using NvmlDevice = void*;
inline constexpr int kClockOfMultiprocessors = 1;
inline constexpr int kClockOfMemory = 2;

}  // namespace orrery::runtime
