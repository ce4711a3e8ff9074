// From a lane to what is painted of it: a strip for each span that is wide enough to be seen, and
// one for each run of those that are not. Only what is visible is visited, and of spans narrower
// than a few pixels only the ends of each run.
#pragma once

#include <vector>

#include "gui/timeline/lane.hpp"
#include "gui/timeline/viewport.hpp"

namespace orrery::gui {

struct Strip {
    double left = 0;  // pixels, cut off a little outside of the view
    double right = 0;
    std::size_t first = 0;  // number of its span in the lane, of a run that of the first
    std::size_t spans = 1;  // that it stands for
    bool run = false;       // spans too narrow to be told apart, though it may be a single one
    bool operator==(const Strip&) const = default;
};

// Narrower spans are merged into runs of this width, in pixels.
inline constexpr double kLeastPixels = 4;

std::vector<Strip> strips_of(const Lane& lane, const Viewport& view);

// Spans of which something is visible.
std::size_t spans_in(const Lane& lane, const Stretch& shown);

// Number of the span at a place, or of the one next to it within `slack` pixels; −1: none.
std::int64_t span_at(const Lane& lane, const Viewport& view, double x, double slack = 1);

}  // namespace orrery::gui
