// One rank as a timeline viewer shows it: lanes of slices with names for people, and a memory
// curve. What the Perfetto and the Chrome writer and the desktop application share; each only
// spells or draws it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/memory_over_time.hpp"
#include "trace/trace.hpp"

namespace orrery::trace::viewer {

struct Slice {
    Picoseconds start = 0;
    Picoseconds end = 0;
    std::int32_t index = 0;  // op id; in the lane of actions, a step
};

// Slices in order of time of which none overlaps another: viewers drop or cut off what does.
struct Lane {
    std::string name;  // "compute"; a second one, of what would overlap, "compute (2)"
    bool of_actions = false;
    std::vector<Slice> slices;
};

struct RankView {
    std::string name;         // "rank 128 · pipeline 1 · x128 alike"
    std::vector<Lane> lanes;  // actions, then streams in the order of plan::Stream; none empty
    std::vector<MemoryChange> memory;
};

// An action spans its compute ops: from the start of the first to the end of the last.
RankView rank_view(const Trace& trace, const Track& track);

// "2F5 fc2 dgrad", "2F5 fc2 all gather", "2B5 fc1 recompute"; an exchange is its action,
// "1SEND_B1+1RECV_F8".
std::string slice_name(const Trace& trace, const ProgramOps& program, std::size_t event);

// The op's kind and phase; an exchange, which may carry both ways, has its kind alone.
std::vector<std::string_view> categories_of(const OpName& op);

// What the event waited for last: the slice name of an op, "the host", or empty.
std::string waited_for(const Trace& trace, const Track& track, std::size_t event);

// Process ids of the tracks, distinct and > 0: rank + 1, for viewers take process 0 for the idle
// one; track + 1 where ranks repeat or are too large.
std::vector<std::int32_t> process_ids(const Trace& trace);

// Nanoseconds for viewers, which know neither negative times nor picoseconds. Rounded down, all
// from one origin: what touched still touches, nothing comes to overlap or to end before its start.
class ViewerClock {
  public:
    explicit ViewerClock(const Trace& trace);
    std::int64_t ns(Picoseconds time) const { return (time - origin_ps_) / 1000; }
    Picoseconds origin_ps() const { return origin_ps_; }  // 0 unless something is before

  private:
    Picoseconds origin_ps_ = 0;
};

}  // namespace orrery::trace::viewer
