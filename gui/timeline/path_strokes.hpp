// From a critical path to what is drawn of it over the rows. Only what is visible is visited, and
// stays that a pixel cannot tell apart are one stroke.
#pragma once

#include <vector>

#include "cli/explain.hpp"
#include "gui/timeline/timeline.hpp"
#include "gui/timeline/viewport.hpp"

namespace orrery::gui {

// From left to right in pixels: on one row, or through several within one pixel.
struct PathStroke {
    double left = 0;  // cut off a little outside of the view
    double right = 0;
    std::size_t first = 0;  // row where it begins, and where it ends
    std::size_t last = 0;
    std::size_t top = 0;  // the outermost rows that it touches
    std::size_t bottom = 0;
    bool operator==(const PathStroke&) const = default;
};

// Of stays in order of time of which each begins where the one before ends (cli::stays_of): so do
// the strokes.
std::vector<PathStroke> strokes_of(const std::vector<cli::PathStay>& stays,
                                   const Timeline& timeline, const Viewport& view);

}  // namespace orrery::gui
