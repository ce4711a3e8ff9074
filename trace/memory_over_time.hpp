// Memory over time: the planned memory that is alive during each slice of the step, of one track. A
// pure view of a trace.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

// The largest live bytes (ProgramOps::live_bytes) during each of `slices` equal parts of the
// trace's window. An action's memory is alive from the start of its first op to the end of its
// last; between actions the memory of the one before stays.
std::vector<std::int64_t> memory_over_time(const Trace& trace, const Track& track, int slices);

// From here on so many bytes are alive.
struct MemoryChange {
    Picoseconds at = 0;
    std::int64_t live_bytes = 0;
    bool operator==(const MemoryChange&) const = default;
};

// The same exactly, over all events of the track, in order of time: where actions overlap the
// largest counts. An action that takes no time shows as two changes at one moment.
std::vector<MemoryChange> memory_changes(const Trace& trace, const Track& track);

}  // namespace orrery::trace
