#include "sim/engine/action_graph.hpp"

#include <algorithm>

#include "sim/engine/op_index.hpp"

namespace orrery::sim {
namespace {

std::vector<Picoseconds> takes_of(const ActionClass& one, const EngineInput& input,
                                  const OpIndex& index) {
    const EngineTrack& track = input.tracks[static_cast<std::size_t>(one.tracks[0])];
    std::vector<Picoseconds> takes;
    for (std::size_t op = 0; op < one.numbers.size(); ++op) {
        const Picoseconds priced = (*track.durations)[one.numbers[op]];
        const bool uneven = track.uneven != nullptr && index.is_kernel(one.numbers[op]);
        takes.push_back(uneven ? track.uneven->of(one.ids.empty() ? 0 : one.ids[op], priced)
                               : priced);
    }
    return takes;
}

// Ends of ops, of which each begins as soon as it may.
std::vector<Picoseconds> ends_of(const ActionClass& one, const std::vector<Picoseconds>& takes) {
    std::vector<Picoseconds> ends(takes.size());
    std::size_t w = 0;
    for (std::size_t op = 0; op < ends.size(); ++op) {
        for (; w < one.waits.size() && one.waits[w].second == op; ++w)
            ends[op] = std::max(ends[op], ends[one.waits[w].first]);
        ends[op] += takes[op];
    }
    return ends;
}

bool none_below(const std::vector<Picoseconds>& least, const std::vector<Picoseconds>& prices) {
    return std::equal(least.begin(), least.end(), prices.begin(), prices.end(),
                      [](Picoseconds a, Picoseconds b) { return a <= b; });
}

}  // namespace

bool ActionGraph::holds_for(const EngineInput& input) const {
    if (!(input.launch == launch_) || !(input.graphs == graphs_) ||
        input.launch_queue != launch_queue_ ||
        input.compute_slowdown_permille != slowdown_permille_ || input.tracks.size() != tracks_)
        return false;
    for (std::size_t t = 0; t < least_.size(); ++t) {
        const EngineTrack& track = input.tracks[t];
        const Prices& least = least_[t];
        const bool even = track.uneven == nullptr;
        if (track.compute_slowdown_permille) return false;
        if (even != !least.uneven || (!even && !(*track.uneven == *least.uneven)) ||
            !none_below(least.durations, *track.durations) ||
            !none_below(least.hops, track.transfer_to_peer))
            return false;
    }
    return true;
}

std::optional<std::vector<Picoseconds>> ActionGraph::delays(const EngineInput& input) const {
    if (!holds_for(input)) return std::nullopt;
    EngineInput ops;  // without programs: of these nothing is asked
    ops.plan = input.plan;
    const OpIndex index(ops);
    const auto spec = [&](TrackId track) -> const EngineTrack& {
        return input.tracks[static_cast<std::size_t>(track)];
    };
    std::vector<Picoseconds> delays = {0};
    delays.insert(delays.end(), host_.begin(), host_.end());
    for (const ActionClass& one : classes_) {
        switch (one.kind) {
            case ActionClass::Kind::nothing:
                delays.push_back(0);
                break;
            case ActionClass::Kind::ops: {
                const EngineTrack& track = spec(one.tracks[0]);
                if (one.ids.empty() && track.uneven != nullptr && track.uneven->draws_each())
                    return std::nullopt;
                const std::vector<Picoseconds> ends = ends_of(one, takes_of(one, input, index));
                for (const std::uint32_t op : one.outputs)
                    delays.push_back(ends[op]);
                break;
            }
            case ActionClass::Kind::transfer: {
                const EngineTrack &from = spec(one.tracks[0]), &to = spec(one.tracks[1]);
                const Picoseconds hop = from.transfer_to_peer[static_cast<std::size_t>(to.program)];
                if (hop != to.transfer_to_peer[static_cast<std::size_t>(from.program)])
                    return std::nullopt;
                delays.push_back(hop);
                break;
            }
            case ActionClass::Kind::meeting: {
                Picoseconds takes = 0;
                for (std::size_t m = 0; m < one.tracks.size(); ++m)
                    takes = std::max(takes, (*spec(one.tracks[m]).durations)[one.numbers[m]]);
                delays.push_back(takes);
                break;
            }
        }
    }
    for (const DerivedDelay& made : derived_) {
        const Picoseconds a = delays[made.a], b = delays[made.b];
        delays.push_back(made.sum ? a + b : std::max(a, b));
    }
    return delays;
}

ActionTimes ActionGraph::evaluate(const std::vector<Picoseconds>& delays,
                                  std::vector<Picoseconds>& scratch) const {
    scratch.resize(nodes_.size());
    Picoseconds* start = scratch.data();
    const Picoseconds* delay = delays.data();
    const auto end = [&](const PathEnd& one) { return start[one.node] + delay[one.delay]; };
    static_assert(kPathEnds == 2);
    start[0] = 0;
    for (std::size_t n = 1; n < nodes_.size(); ++n) {
        start[n] = std::max(end(nodes_[n][0]), end(nodes_[n][1]));
    }
    ActionTimes times;
    for (const PathEnd& one : ends_before_)
        times.start = std::max(times.start, end(one));
    for (const PathEnd& one : ends_)
        times.end = std::max(times.end, end(one));
    times.computing.resize(tracks_);
    for (const Computing& one : computing_)
        times.computing[one.track] += one.runs * delay[one.delay];
    return times;
}

}  // namespace orrery::sim
