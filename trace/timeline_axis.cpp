#include "trace/timeline_axis.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery::trace {

Picoseconds round_step(Picoseconds least) {
    Picoseconds power = 1;
    for (;; power *= 10)
        for (const Picoseconds digit : {1, 2, 5})
            if (digit * power >= least) return digit * power;
}

std::string tick_label(Picoseconds time, Picoseconds end, Picoseconds step) {
    Picoseconds unit = 1;
    const char* name = "ps";
    if (end >= 1'000'000'000'000) {
        unit = 1'000'000'000'000;
        name = "s";
    } else if (end >= 1'000'000'000) {
        unit = 1'000'000'000;
        name = "ms";
    } else if (end >= 1'000'000) {
        unit = 1'000'000;
        name = "µs";
    } else if (end >= 1000) {
        unit = 1000;
        name = "ns";
    }
    int decimals = 0;
    for (Picoseconds part = unit; part > step && decimals < 12; part /= 10)
        ++decimals;
    return fmt::format("{:.{}f} {}", static_cast<double>(time) / static_cast<double>(unit),
                       decimals, name);
}

std::string axis_text(const Window& window, Picoseconds zero, std::size_t indent) {
    constexpr Picoseconds kCellsPerTick = 14;
    const Picoseconds span = window.to - window.from;
    const Picoseconds step =
        round_step(std::max<Picoseconds>(1, span / window.cells) * kCellsPerTick);
    std::string ruler(static_cast<std::size_t>(window.cells), '-');
    std::string labels;
    Picoseconds tick = (window.from - zero + step - 1) / step * step;
    for (; tick < window.to - zero; tick += step) {
        const double place = static_cast<double>(tick + zero - window.from) /
                             static_cast<double>(span) * window.cells;
        const auto at = static_cast<std::size_t>(place);
        if (at >= ruler.size()) break;
        const std::string label = tick_label(tick, window.to - zero, step);
        ruler[at] = '+';
        if (at < labels.size() || at + label.size() > ruler.size()) continue;
        labels += std::string(at - labels.size(), ' ') + label + ' ';
    }
    while (!labels.empty() && labels.back() == ' ')
        labels.pop_back();
    const std::string margin(indent, ' ');
    return margin + ruler + '\n' + margin + labels + '\n';
}

}  // namespace orrery::trace
