#include "gui/timeline/strips.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::gui {
namespace {

constexpr double kMargin = 4;  // so that edges of boxes are not seen at the border

class Merger {
  public:
    Merger(const Lane& lane, const Viewport& view)
        : lane_(lane), spans_(lane.spans()), view_(view) {}

    std::vector<Strip> run() {
        std::size_t i = lane_.first_ending_after(view_.shown().from);
        while (i < spans_.size() && spans_[i].from < view_.shown().to)
            i = wide(spans_[i]) ? add_span(i) : add_run(i);
        return std::move(strips_);
    }

  private:
    bool wide(const Span& span) const {
        return static_cast<double>(span.to - span.from) >= kLeastPixels * view_.ps_per_pixel();
    }

    std::size_t add_span(std::size_t i) {
        const Span& span = spans_[i];
        strips_.push_back({std::max(view_.x_of(span.from), -kMargin),
                           std::min(view_.x_of(span.to), view_.width() + kMargin), i, 1, false});
        return i + 1;
    }

    // Those that start in the same kLeastPixels of the view; a wide one that follows is its own.
    // The last may reach into the next column, in which nothing else may start.
    std::size_t add_run(std::size_t begin) {
        const double left =
            std::floor(view_.x_of(spans_[begin].from) / kLeastPixels) * kLeastPixels;
        const double right = left + kLeastPixels;
        std::size_t end = lane_.first_starting_at(view_.time_at(right), begin);
        end = std::clamp(end, begin + 1, spans_.size());
        if (end > begin + 1 && wide(spans_[end - 1])) --end;
        strips_.push_back({left, right, begin, end - begin, true});
        const double next = right + kLeastPixels;
        const bool reaches = view_.x_of(spans_[end - 1].to) > right;
        const bool starts_there = end < spans_.size() && view_.x_of(spans_[end].from) < next;
        if (reaches && (!starts_there || wide(spans_[end])))
            strips_.push_back({right, next, end - 1, 1, true});
        return end;
    }

    const Lane& lane_;
    const std::vector<Span>& spans_;
    const Viewport& view_;
    std::vector<Strip> strips_;
};

}  // namespace

std::vector<Strip> strips_of(const Lane& lane, const Viewport& view) {
    return Merger(lane, view).run();
}

std::size_t spans_in(const Lane& lane, const Stretch& shown) {
    const std::size_t first = lane.first_ending_after(shown.from);
    return lane.first_starting_at(shown.to, first) - first;
}

std::int64_t span_at(const Lane& lane, const Viewport& view, double x, double slack) {
    const Picoseconds time = view.time_at(x);
    const Picoseconds reach = view.time_at(x + slack);
    std::int64_t nearest = -1;
    for (std::size_t i = lane.first_ending_after(view.time_at(x - slack));
         i < lane.spans().size() && lane.spans()[i].from <= reach; ++i) {
        nearest = static_cast<std::int64_t>(i);
        if (lane.spans()[i].to > time) break;
    }
    return nearest;
}

}  // namespace orrery::gui
