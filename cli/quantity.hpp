// Numbers for people: few digits, a unit always. Times are seconds, bytes are counted in powers of
// ten, as networks and disks are.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::cli {

std::string whole_text(std::int64_t value);  // "3,145,728"
std::string digits_text(double value);       // three digits or the whole part: "17.9", "1,234"
std::string seconds_text(double seconds);    // "17.9 s", "3.25 ms", "12.0 µs", "0 s"
std::string bytes_text(double bytes);        // "66.2 GB", "512 B"
std::string percent_text(double share);      // "45.9 %", "<0.1 %"
// With a prefix of the SI: scaled_text(1.752e11, "FLOP") is "175 GFLOP".
std::string scaled_text(double value, const std::string& unit);
// In words of English finance: "175 billion"; below a million as it stands.
std::string counted_text(double value);

// `share` of `cells` characters, in eighths of one; at least a sliver for what is above 0.
std::string bar_text(double share, int cells);

}  // namespace orrery::cli
