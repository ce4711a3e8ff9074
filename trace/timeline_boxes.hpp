// The pipeline as boxes, for viewers that zoom: what each pipeline rank does from when to when, in
// at most so many boxes as a viewer, or a file, can hold. A pure view of a trace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/timeline_cells.hpp"

namespace orrery::trace {

// A stretch of one action, or of waiting; boxes of a row fill the trace's window without gaps.
struct TimelineBox {
    Picoseconds from = 0;
    Picoseconds to = 0;
    std::int32_t step = -1;  // the action's index in the program, −1: waiting alone
    std::array<Picoseconds, kPaints> time{};  // by Paint; sums to the box
};

struct TimelineRow {
    const Track* track = nullptr;  // the first of its program, in order of programs
    std::vector<TimelineBox> boxes;
};

struct TimelineBoxes {
    std::vector<TimelineRow> rows;
    // What is shorter stands in the box of its action, or of the action beside it; 0: each kind of
    // work has boxes of its own.
    Picoseconds resolution = 0;
};

// The finest that has at most `most` boxes in all, as far as boxes of different actions, which are
// never put together, allow.
TimelineBoxes timeline_boxes(const Trace& trace, std::size_t most);

}  // namespace orrery::trace
