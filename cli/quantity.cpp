#include "cli/quantity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace orrery::cli {
namespace {

std::string grouped(std::string digits) {
    const std::size_t first = digits.front() == '-' ? 1 : 0;
    for (std::size_t at = std::min(digits.find('.'), digits.size()); at > first + 3;) {
        at -= 3;
        digits.insert(at, 1, ',');
    }
    return digits;
}

using Prefix = std::pair<double, const char*>;

// The largest prefix of which there is at least one, as three digits would show it.
std::string prefixed(double value, const std::string& unit, const Prefix* first,
                     const Prefix* last) {
    while (first + 1 != last && std::abs(value) < 0.9995 * first->first)
        ++first;
    return fmt::format("{} {}{}", digits_text(value / first->first), first->second, unit);
}

}  // namespace

std::string whole_text(std::int64_t value) {
    return grouped(std::to_string(value));
}

std::string digits_text(double value) {
    const double size = std::abs(value);
    int decimals = 2;
    if (value == 0 || size >= 99.95)
        decimals = 0;
    else if (size >= 9.995)
        decimals = 1;
    return grouped(fmt::format("{:.{}f}", value, decimals));
}

std::string seconds_text(double seconds) {
    static constexpr std::array<Prefix, 4> kPrefixes = {
        {{1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}};
    if (seconds == 0) return "0 s";
    return prefixed(seconds, "s", kPrefixes.data(), kPrefixes.data() + kPrefixes.size());
}

std::string bytes_text(double bytes) {
    static constexpr std::array<Prefix, 6> kPrefixes = {
        {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
    if (std::abs(bytes) < 1000) return fmt::format("{:.0f} B", bytes);
    return prefixed(bytes, "B", kPrefixes.data(), kPrefixes.data() + kPrefixes.size());
}

std::string percent_text(double share) {
    if (share > 0 && share < 0.0005) return "<0.1 %";
    if (share > 0.9995 && share < 1) return ">99.9 %";
    return fmt::format("{:.1f} %", 100 * share);
}

std::string scaled_text(double value, const std::string& unit) {
    static constexpr std::array<Prefix, 8> kPrefixes = {{{1e21, "Z"},
                                                         {1e18, "E"},
                                                         {1e15, "P"},
                                                         {1e12, "T"},
                                                         {1e9, "G"},
                                                         {1e6, "M"},
                                                         {1e3, "k"},
                                                         {1, ""}}};
    return prefixed(value, unit, kPrefixes.data(), kPrefixes.data() + kPrefixes.size());
}

std::string counted_text(double value) {
    static constexpr std::array<Prefix, 4> kPrefixes = {
        {{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}, {1, ""}}};
    if (std::abs(value) < 1e6) return digits_text(value);
    return prefixed(value, "", kPrefixes.data(), kPrefixes.data() + kPrefixes.size());
}

std::string bar_text(double share, int cells) {
    static constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(share > 0)) return "";
    const int eighths = std::clamp(static_cast<int>(share * cells * 8 + 0.5), 1, cells * 8);
    std::string text;
    for (int i = 0; i < eighths / 8; ++i)
        text += "█";
    return text + kEighths[static_cast<std::size_t>(eighths % 8)];
}

}  // namespace orrery::cli
