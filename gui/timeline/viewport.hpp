// Which stretch of time is shown, and how wide. Zooming keeps what is under the cursor where it is;
// nothing leaves the trace's own limits.
#pragma once

#include <algorithm>

#include "trace/trace.hpp"

namespace orrery::gui {

using trace::Picoseconds;

struct Stretch {
    Picoseconds from = 0;
    Picoseconds to = 0;

    Picoseconds length() const { return to - from; }
    bool operator==(const Stretch&) const = default;
};

class Viewport {
  public:
    Viewport() = default;
    // `limits` is not empty.
    explicit Viewport(Stretch limits) : limits_(limits), shown_(limits) {}

    const Stretch& limits() const { return limits_; }
    const Stretch& shown() const { return shown_; }
    // From now on it may show this as well.
    void widen(Stretch stretch) {
        limits_.from = std::min(limits_.from, stretch.from);
        limits_.to = std::max(limits_.to, stretch.to);
    }
    int width() const { return width_; }
    void set_width(int pixels) { width_ = pixels > 1 ? pixels : 1; }

    // Pixels from the left edge; outside of the view they are outside of 0 to width().
    double x_of(Picoseconds time) const {
        return static_cast<double>(time - shown_.from) / ps_per_pixel();
    }
    Picoseconds time_at(double x) const;
    double ps_per_pixel() const {
        return static_cast<double>(shown_.length()) / static_cast<double>(width_);
    }

    void show(Stretch stretch);  // as much of it as lies within the limits
    void show_all() { shown_ = limits_; }
    // Factors below 1 show less; what is at pixel `x` stays there.
    void zoom(double factor, double x);
    void pan(double pixels);  // later for pixels above 0
    void centre(Picoseconds time);

  private:
    // Fewer picoseconds than this over the whole width show nothing more.
    static constexpr Picoseconds kLeastShown = 1000;

    Stretch limits_{0, 1};
    Stretch shown_{0, 1};
    int width_ = 1;
};

}  // namespace orrery::gui
