// Products of a rank's experts on a device: several experts with rows each at once.
#pragma once

#include <vector>

#include "calib/fit/judge_experts.hpp"
#include "calib/measure/device_timings.hpp"

namespace orrery::measure {

// bf16, in three forms: 2 to 32 experts with equally many rows, which the host learns as it does in
// a step. The driver is that of the timer.
std::vector<fit::ExpertTiming> time_expert_products(runtime::StreamDriver& driver,
                                                    DeviceTimer& timer, DeviceOperands& operands,
                                                    const DeviceGrid& grid);

}  // namespace orrery::measure
