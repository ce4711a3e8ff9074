// A recorded step beside the plan of the scenario that it is said to be of: which kernels are which
// ops. Products are told by their shapes, collectives by kind and bytes, all else by kind and pass;
// where as many were recorded as are planned, they are matched one by one in their order, else by
// kind alone, their times together. Where each transfer was recorded by itself, so are those of an
// exchange told apart. What fits nothing is counted and listed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calib/compare/recorded_work.hpp"
#include "plan/ir/plan.hpp"
#include "trace/trace.hpp"

namespace orrery::compare {

struct KindMatch {
    WorkKind kind = WorkKind::other;
    std::int64_t recorded = 0, planned = 0;  // of the kind
    std::int64_t by_op = 0, by_kind = 0;     // of the recorded ones
    double measured_s = 0, predicted_s = 0;
};

struct UnmatchedName {
    std::string name;
    WorkKind kind = WorkKind::other;
    std::int64_t count = 0;
    double seconds = 0;
};

// What of a kind's time falls to a planned op where they were not told apart: in proportion to what
// is predicted.
struct SharedTime {
    std::uint32_t op = 0;  // id, of the program
    trace::Picoseconds start = 0, end = 0;
};

struct RankMatch {
    std::vector<KindMatch> kinds;  // in the order of WorkKind, those that are there
    std::int64_t by_op = 0, by_kind = 0, unmatched = 0;
    double by_op_s = 0, by_kind_s = 0, unmatched_s = 0;
    std::vector<UnmatchedName> names;  // of what is unmatched, longest first
    // Op id of the program, work item; an exchange of several transfers has one for each.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ops;
    std::vector<SharedTime> shared;
};

// Which way a planned transfer goes.
MessageWay way_of(const plan::Transfer& transfer);

// `predicted`: the simulated trace of the plan, `track` the rank's in it.
RankMatch match_rank(const RecordedRank& recorded, const plan::Plan& plan,
                     const trace::Trace& predicted, const trace::Track& track);

// The planned ops that something was matched with, as a measured trace: `simulate --costs` prices
// them by it. Those that were matched by kind lie behind each other from where the first of the
// kind was. Ops that were told apart come late by what their like waited with nothing running, in
// the mean: the host's time between kernels. Of all ranks given, which are of this plan.
trace::Trace matched_trace(const std::vector<const RecordedRank*>& ranks,
                           const std::vector<RankMatch>& matches, const trace::Trace& predicted,
                           const std::vector<const trace::Track*>& tracks);

}  // namespace orrery::compare
