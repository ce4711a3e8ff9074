// Two predicted steps side by side, as `orrery diff` tells of them, and a measured one beside its
// prediction, as `orrery compare` does: by their code.
#pragma once

#include <string>

#include "gui/scenario/answer.hpp"
#include "trace/alignment.hpp"

namespace orrery::gui {

// Both have a prediction; `alignment` is of their steps.
std::string comparison_text(const Answer& a, const Answer& b, const trace::Alignment& alignment);

// Of another plan than the measured one: says so, with the differences.
std::string comparison_text(const Answer& predicted, const trace::Trace& measured,
                            const std::string& measured_name);

}  // namespace orrery::gui
