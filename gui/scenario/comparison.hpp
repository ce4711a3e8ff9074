// Two predicted steps side by side, as `orrery diff` tells of them, by its code.
#pragma once

#include <string>

#include "gui/scenario/answer.hpp"

namespace orrery::gui {

// Both have a prediction.
std::string comparison_text(const Answer& a, const Answer& b);

}  // namespace orrery::gui
