// Transfers between rows: who sent what an action waited for, and who waited for what it sends.
#pragma once

#include <optional>
#include <vector>

#include "gui/timeline/details.hpp"

namespace orrery::gui {

// One op of communication of two ranks, of which one was there last.
struct Arrival {
    OpPlace from;  // the last one's
    OpPlace to;    // of the one that had waited
    Picoseconds sent = 0;
    Picoseconds received = 0;
    bool operator==(const Arrival&) const = default;
};

// Where an op of communication waited for a rank on another row. Nothing where it did not, or where
// two clocks, of a measured trace, do not tell which op of that row it was.
std::optional<Arrival> arrival_of(const Timeline& timeline, const OpPlace& op);

// Of the pipeline transfers that an action waited for, then of those that waited for it. `op` is
// one of the action's ops. Looks at every event of the trace.
std::vector<Arrival> arrivals_around(const Timeline& timeline, const OpPlace& op);

}  // namespace orrery::gui
