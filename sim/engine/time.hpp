// Simulated time: whole picoseconds, so that sums are exact and the same on every machine.
// 2^63 ps are 106 days; what lies beyond a step has its own clock (sim/fleet).
#pragma once

#include <cstdint>

namespace orrery::sim {

using Picoseconds = std::int64_t;
inline constexpr double kPicosecondsPerSecond = 1e12;

// Rounds to the nearest picosecond; seconds must be finite and not negative.
inline Picoseconds from_seconds(double seconds) {
    return static_cast<Picoseconds>(seconds * kPicosecondsPerSecond + 0.5);
}
inline double to_seconds(Picoseconds time) {
    return static_cast<double>(time) / kPicosecondsPerSecond;
}

}  // namespace orrery::sim
