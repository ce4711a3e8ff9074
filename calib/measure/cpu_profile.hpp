// The profile of the CPU backend on this machine: its kernels and its communicator timed over
// sizes, fitted, and put down with where the numbers come from. What `orrery calibrate --backend
// cpu` writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "calib/fit/fit_profile.hpp"
#include "calib/measure/cpu_timings.hpp"
#include "calib/measure/machine.hpp"

namespace orrery::measure {

struct Calibration {
    nlohmann::ordered_json profile;           // for fit::write_profile
    std::vector<fit::FamilyReport> families;  // what the fits miss on rows they have not seen
    std::vector<std::string> notes;           // what was measured beside, for people
    std::string warning = {};                 // what makes it doubtful; empty: nothing known
};

// Throws fit::FitError where the timings determine no curve (too small a grid, too noisy a
// machine).
Calibration profile_of(const CpuTimings& timings, const CalibrationOptions& options,
                       const Machine& machine);

// Of this machine. Takes a minute or more; `progress` is told what is being timed. Throws as
// profile_of.
Calibration measure_cpu_profile(const CalibrationOptions& options,
                                const std::function<void(const std::string&)>& progress);

}  // namespace orrery::measure
