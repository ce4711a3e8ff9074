// Where the lines of a run lie in a picture of it: from time to pixels and back.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/run_days.hpp"

namespace orrery::gui {

struct DaysPlaces {
    double line_s = 0;
    std::size_t lines = 0;
    double end_s = 0;  // of the run
    // Pixels: bars are `width` wide from `left` on; a line has its bar above, marks below.
    int left = 0, width = 0;
    int bar_height = 16, line_height = 24;

    int height() const { return static_cast<int>(lines) * line_height; }
    std::size_t line_of(double at_s) const;
    int top_of(std::size_t line) const { return static_cast<int>(line) * line_height; }
    double x_of(double at_s) const;
    // Nothing beside the bars, or behind the run's end.
    std::optional<double> time_at(double x, double y) const;
};

// The failure nearest to a place of its line, no more than `slack` pixels away.
std::optional<std::size_t> failure_at(const sim::RunTimeline& run, const DaysPlaces& places,
                                      double x, double y, double slack = 6);

}  // namespace orrery::gui
