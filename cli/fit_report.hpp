// What a fit found, for people: errors on rows that it has not seen, and the curves.
#pragma once

#include <string>

#include "calib/fit/fit_profile.hpp"

namespace orrery::cli {

// Each part after an empty line; nothing for a report without families and collectives.
std::string fit_report_text(const fit::FitReport& report);

}  // namespace orrery::cli
