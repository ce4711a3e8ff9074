// What a fit found: errors on rows that it has not seen, and the curves; for people and as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "calib/fit/fit_profile.hpp"

namespace orrery::cli {

// Each part after an empty line; nothing for a report without families and collectives.
std::string fit_report_text(const fit::FitReport& report);

// {"device", "families": [{"family", "fitted_rows", "left_out_rows", fit_errors_json, "curve"}],
//  "collectives": [{"collective", "ranks", "points", "rms_error_pct"}], "unread"}
nlohmann::ordered_json fit_report_json(const fit::FitReport& report);
// {"rows", "mean_abs_error_pct", "median_abs_error_pct", "p95_abs_error_pct", "bias_pct",
//  "rms_error_pct"} of predicted / measured - 1.
nlohmann::ordered_json fit_errors_json(const fit::ErrorSummary& errors);

}  // namespace orrery::cli
