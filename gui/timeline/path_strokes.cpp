#include "gui/timeline/path_strokes.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::gui {
namespace {

constexpr double kOutside = 4;  // pixels beyond the view's edges

// Both within one pixel.
bool is_narrow(double left, double right) {
    return std::floor(left) == std::floor(right);
}

}  // namespace

std::vector<PathStroke> strokes_of(const std::vector<cli::PathStay>& stays,
                                   const Timeline& timeline, const Viewport& view) {
    const Stretch& shown = view.shown();
    std::vector<PathStroke> strokes;
    auto stay = std::partition_point(stays.begin(), stays.end(),
                                     [&](const auto& each) { return each.to <= shown.from; });
    for (; stay != stays.end() && stay->from < shown.to; ++stay) {
        const std::optional<std::size_t> row =
            timeline.rank_of_track(static_cast<std::size_t>(stay->track));
        if (!row) continue;
        const double left = std::max(-kOutside, view.x_of(stay->from));
        const double right = std::min(view.width() + kOutside, view.x_of(stay->to));
        if (!strokes.empty()) {
            PathStroke& before = strokes.back();
            if (is_narrow(left, right) && is_narrow(before.left, right)) {
                before.right = right;
                before.last = *row;
                before.top = std::min(before.top, *row);
                before.bottom = std::max(before.bottom, *row);
                continue;
            }
        }
        strokes.push_back({left, right, *row, *row, *row, *row});
    }
    return strokes;
}

}  // namespace orrery::gui
