// A schedule as a picture: which rank runs what in which unit of time, and what that leaves idle.
#pragma once

#include <string>

#include "plan/schedule/schedule.hpp"

namespace orrery::cli {

struct ScheduleView {
    std::string name;
    plan::Schedule schedule;
    std::int32_t micro_batches = 0;
    std::vector<std::string> notes;  // on what was imported
};

// Lines of at most `columns`: time is drawn in parts, one below the other. Of many parts the first
// two and the last are drawn, with `whole` all.
std::string schedule_text(const ScheduleView& view, int columns, bool whole);
std::string schedule_json(const ScheduleView& view);

}  // namespace orrery::cli
