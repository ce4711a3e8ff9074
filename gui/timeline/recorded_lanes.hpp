// A trace that another program recorded, as lanes: of a device what it does at each moment, compute
// before communication before copies, and when it does nothing; of a process of the host its
// operators and calls. Its rows stand in the order of the trace's processes.
#pragma once

#include <optional>
#include <vector>

#include "gui/timeline/timeline.hpp"

namespace orrery::gui {

// Index of their spans: of the process's spans, −1 where it does nothing.
RankLanes recorded_lanes(const trace::RecordedTrace& trace, std::size_t process);
// A lane per stream or thread, and one more for each depth of what lies in others.
std::vector<Lane> recorded_streams(const trace::RecordedTrace& trace, std::size_t process);

// The call that launched a kernel or copy; what a call launched.
std::optional<OpPlace> launch_of(const trace::RecordedTrace& trace, const OpPlace& op);
std::optional<OpPlace> launched_by(const trace::RecordedTrace& trace, const OpPlace& op);

// The first of a row that starts at or after a time and is work of it.
std::optional<std::size_t> recorded_kernel_from(const trace::RecordedTrace& trace,
                                                std::size_t process, Picoseconds time);

}  // namespace orrery::gui
