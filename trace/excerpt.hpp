// Part of a trace, small enough for a viewer: some ranks, some steps of their programs, some kinds
// of ops. What is there keeps its times; what an op waited for and is not there counts as nothing.
// No account of time follows from an excerpt.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

struct ExcerptChoice {
    // Each list: none means all. Ranges ascend and are apart.
    std::vector<RankRange> ranks;
    std::vector<RankRange> steps;  // of a rank's program, from 0, in the order of issue
    std::vector<plan::OpKind> kinds;

    bool is_all() const { return ranks.empty() && steps.empty() && kinds.empty(); }
};

struct LeftOut {
    std::int64_t ranks = 0, of_ranks = 0;
    std::int64_t events = 0, of_events = 0;  // of the tracks, each for all ranks that it stands for
};

LeftOut left_out(const Trace& whole, const Trace& part);

Trace excerpt(const Trace& trace, const ExcerptChoice& choice);

// The first `count` tracks in this order: of each pipeline rank the first, then of each the second,
// …
Trace first_tracks(const Trace& trace, std::size_t count);

}  // namespace orrery::trace
