// What orrery calibrate --runs prints:
//
//   shifts of 3 runs, for --set or a scenario's own keys
//     training.kernel_factor = 1.08   (was 1, known to within 4 %)
//
//   mean error of these runs   12.1 % before, 3.0 % after, 4.2 % each by the others
#pragma once

#include <string>

#include "calib/compare/self_calibration.hpp"

namespace orrery::cli {

std::string self_calibration_text(const compare::SelfCalibration& shifted);
std::string self_calibration_json(const compare::SelfCalibration& shifted);

}  // namespace orrery::cli
