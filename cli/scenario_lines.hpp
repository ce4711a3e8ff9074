// What a scenario asks for, in lines that every report begins with.
#pragma once

#include <string>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

std::string layout_line(const plan::Layout& layout);
std::string precision_text(const plan::Training& training);
std::string batch_line(const plan::Scenario& scenario);

}  // namespace orrery::cli
