#include "gui/timeline/viewport.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::gui {

Picoseconds Viewport::time_at(double x) const {
    return shown_.from + static_cast<Picoseconds>(std::llround(x * ps_per_pixel()));
}

void Viewport::show(Stretch stretch) {
    const Picoseconds most = limits_.length();
    const Picoseconds length = std::clamp(stretch.length(), std::min(kLeastShown, most), most);
    const Picoseconds middle = stretch.from + stretch.length() / 2;
    // Wide enough already: it begins where it was asked to.
    const Picoseconds from = length == stretch.length() ? stretch.from : middle - length / 2;
    shown_.from = std::clamp(from, limits_.from, limits_.to - length);
    shown_.to = shown_.from + length;
}

void Viewport::zoom(double factor, double x) {
    const Picoseconds still = time_at(x);
    const double length = static_cast<double>(shown_.length()) * factor;
    const double most = static_cast<double>(limits_.length());
    const auto next = static_cast<Picoseconds>(
        std::llround(std::clamp(length, std::min<double>(kLeastShown, most), most)));
    const auto before = static_cast<Picoseconds>(
        std::llround(static_cast<double>(next) * (x / static_cast<double>(width_))));
    show({still - before, still - before + next});
}

void Viewport::pan(double pixels) {
    const auto by = static_cast<Picoseconds>(std::llround(pixels * ps_per_pixel()));
    show({shown_.from + by, shown_.to + by});
}

void Viewport::centre(Picoseconds time) {
    const Picoseconds half = shown_.length() / 2;
    show({time - half, time - half + shown_.length()});
}

}  // namespace orrery::gui
