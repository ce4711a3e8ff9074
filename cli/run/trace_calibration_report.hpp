// What `orrery calibrate --from-trace` prints: constants of a stack from one measured step.
#pragma once

#include <string>

#include "calib/compare/calibration_from_trace.hpp"

namespace orrery::cli {

std::string trace_calibration_text(const compare::TraceCalibration& found);
// Keys are a contract: docs/calibrate.md.
std::string trace_calibration_json(const compare::TraceCalibration& found);

}  // namespace orrery::cli
