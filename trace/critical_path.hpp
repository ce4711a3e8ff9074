// Why a step takes as long as it does: the chain of work that nothing waited beside. From the op
// that ends the step it goes back through what each op waited for last: an op of its own rank, the
// member of its group that came last, or the host. Shorten what is not on it, and the step stays as
// it is.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/accounts.hpp"
#include "trace/launch_times.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// How the host of each rank issues ops, which a trace does not say.
struct HostIssue {
    LaunchTimes launch;
    std::int64_t queue = 1024;  // ops that it may be ahead of the device
    GraphLaunches graphs{};
};

// What the step hangs on from `from` to `to`.
struct PathSegment {
    std::int32_t track = 0;
    std::int32_t op = kHost;  // event of the track that runs; kHost: its host issues ops
    Picoseconds from = 0;
    Picoseconds to = 0;
    bool operator==(const PathSegment&) const = default;
};

// Of a predicted trace (checked), in order of time: the first begins with the step, each begins
// where the one before ends, the last ends with the step; none is empty. Of several tracks that end
// the step together the first is taken. Where a rank and the host are ready at once, the rank
// counts. A full queue of the host counts the ops that have ended, whichever they are: the path
// goes on with the one whose end let the host go on. Where measured times price the ops, what they
// came late by is the host's, and so is what the run took after its last op. Transfers of one
// exchange take equally long, as they have one peer; else the segment of an exchange begins with
// the transfer that began last.
std::vector<PathSegment> critical_path(const Trace& trace, const HostIssue& host);

// A path summed up by rank and by what kind of work it is.
struct PathPart {
    std::int32_t track = 0;
    Account account = Account::other;  // never bubble or imbalance: the path waits for no peer
    plan::OpKind kind = plan::OpKind::gemm;  // of no meaning where the account is launch
    plan::GroupKind group = plan::GroupKind::none;
    Picoseconds time = 0;
    bool operator==(const PathPart&) const = default;
};

// Largest first; the parts sum to the step.
std::vector<PathPart> parts_of(const Trace& trace, const std::vector<PathSegment>& path);

}  // namespace orrery::trace
