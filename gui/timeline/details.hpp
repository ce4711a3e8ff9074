// What is known of one box of the timeline, as lines for people, and who it waited for.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gui/timeline/timeline.hpp"

namespace orrery::gui {

struct Details {
    std::string title;                                       // "2F5 fc2", "pipeline bubble"
    std::vector<std::pair<std::string, std::string>> lines;  // what, and its value with unit
    std::optional<OpPlace> blocker;                          // of another op: where to go
};

Details op_details(const Timeline& timeline, const OpPlace& place);
// Of a span of a rank's outline.
Details work_details(const Timeline& timeline, std::size_t rank, const Span& span);

// One line for a tooltip: title, duration.
std::string brief(const Details& details);

}  // namespace orrery::gui
