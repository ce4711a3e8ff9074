#include "gui/scenario/days_places.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::gui {

std::size_t DaysPlaces::line_of(double at_s) const {
    return std::min(lines - 1, static_cast<std::size_t>(std::max(0.0, at_s) / line_s));
}

double DaysPlaces::x_of(double at_s) const {
    return left + (at_s - static_cast<double>(line_of(at_s)) * line_s) / line_s * width;
}

std::optional<double> DaysPlaces::time_at(double x, double y) const {
    if (width <= 0 || x < left || x >= left + width || y < 0 || y >= height()) return std::nullopt;
    const double line = std::floor(y / line_height);
    const double at_s = (line + (x - left) / width) * line_s;
    if (at_s > end_s) return std::nullopt;
    return at_s;
}

std::optional<std::size_t> failure_at(const sim::RunTimeline& run, const DaysPlaces& places,
                                      double x, double y, double slack) {
    if (places.lines == 0 || places.width <= 0 || y < 0 || y >= places.height())
        return std::nullopt;
    const auto line = static_cast<std::size_t>(y / places.line_height);
    // Failures are in order of time: those of this line from here on.
    auto at = std::lower_bound(
        run.failures.begin(), run.failures.end(), static_cast<double>(line) * places.line_s,
        [](const sim::RunFailure& failure, double at_s) { return failure.at_s < at_s; });
    std::optional<std::size_t> nearest;
    for (; at != run.failures.end() && places.line_of(at->at_s) == line; ++at) {
        const double away = std::abs(places.x_of(at->at_s) - x);
        if (away > slack) continue;
        slack = away;
        nearest = static_cast<std::size_t>(at - run.failures.begin());
    }
    return nearest;
}

}  // namespace orrery::gui
