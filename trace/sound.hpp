// What every trace has to hold before it is written, in whatever format. Internal to trace/.
#pragma once

#include "trace/trace.hpp"

namespace orrery::trace {

// Times of a trace lie within ±kTimeLimit (26 days): differences of two, and of two such
// differences, do not overflow.
inline constexpr Picoseconds kTimeLimit = Picoseconds{1} << 61;

// Aborts (ORRERY_CHECK) unless indices are in range, the vectors of a program of one length, a
// track has as many events as its program has ops, blocker < event, ready <= start <= end, numbers
// finite.
// Whether the ranks that a track stands for ascend from its own, and each is there once.
bool are_apart(const Track& track);

void check_sound(const Trace& trace);

}  // namespace orrery::trace
