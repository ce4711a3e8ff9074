// The pipeline as text: one row per pipeline rank, one character per slice of time, which shows
// what filled most of the slice. A pure reader of a trace, predicted or measured.
#pragma once

#include <string>

#include "trace/trace.hpp"

namespace orrery::trace {

struct TimelineStyle {
    int columns = 100;    // width of a line; at least 40 are used
    bool colour = false;  // ANSI 24-bit colours of the Okabe–Ito palette (Okabe and Ito 2008)
};

// The whole step; then, magnified, its start until every rank has done a backward, and its end from
// the first rank's last backward, where they are less than half of the step. With a legend. Of
// tracks with the same program the first is drawn. "no time passes in this trace" where the step's
// window is empty.
std::string timeline_text(const Trace& trace, const TimelineStyle& style);

// One view of [from, to) without legend: rows and the axis below them. from < to.
std::string timeline_view(const Trace& trace, Picoseconds from, Picoseconds to,
                          const TimelineStyle& style);

}  // namespace orrery::trace
