// What a selected area adds up to: the time of its ranks by kind of work and of waiting, which sums
// to the selected time to the picosecond.
#pragma once

#include <string>
#include <vector>

#include "gui/timeline/timeline.hpp"

namespace orrery::gui {

struct Area {
    Stretch stretch;
    std::vector<std::size_t> ranks;  // rows, ascending
};

struct KindTime {
    Kind kind = Kind::other;
    Picoseconds time = 0;  // of all selected ranks, each row once
};

struct Aggregate {
    Stretch stretch;              // the part of the area that lies in the step's window
    Picoseconds selected = 0;     // its length times the ranks
    std::vector<KindTime> kinds;  // largest first; of equal ones in the order of Kind
};

Aggregate aggregate_of(const Timeline& timeline, const Area& area);

}  // namespace orrery::gui
