#include "sim/engine/action_graph.hpp"

#include <algorithm>

namespace orrery::sim {
namespace {

template <typename Price>
Picoseconds longest_path(const ActionClass& one, const Price& price) {
    std::vector<Picoseconds> ends(one.numbers.size());
    Picoseconds longest = 0;
    std::size_t w = 0;
    for (std::size_t op = 0; op < ends.size(); ++op) {
        for (; w < one.waits.size() && one.waits[w].second == op; ++w)
            ends[op] = std::max(ends[op], ends[one.waits[w].first]);
        ends[op] += price(one.numbers[op]);
        longest = std::max(longest, ends[op]);
    }
    return longest;
}

}  // namespace
std::vector<Picoseconds> ActionGraph::durations(const EngineInput& input) const {
    std::vector<Picoseconds> durations;
    const auto price = [&](TrackId track, std::uint32_t number) {
        return (*input.tracks[static_cast<std::size_t>(track)].durations)[number];
    };
    for (const ActionClass& one : classes_) {
        Picoseconds takes = 0;
        switch (one.kind) {
            case ActionClass::Kind::nothing:
                break;
            case ActionClass::Kind::ops:
                takes = longest_path(
                    one, [&](std::uint32_t number) { return price(one.tracks[0], number); });
                break;
            case ActionClass::Kind::transfer: {
                const EngineTrack& from = input.tracks[static_cast<std::size_t>(one.tracks[0])];
                const EngineTrack& to = input.tracks[static_cast<std::size_t>(one.tracks[1])];
                takes = from.transfer_to_peer[static_cast<std::size_t>(to.program)];
                break;
            }
            case ActionClass::Kind::meeting:
                for (std::size_t m = 0; m < one.tracks.size(); ++m)
                    takes = std::max(takes, price(one.tracks[m], one.numbers[m]));
                break;
        }
        durations.push_back(takes);
    }
    return durations;
}

ActionTimes ActionGraph::evaluate(const std::vector<Picoseconds>& durations,
                                  std::vector<Picoseconds>& scratch) const {
    scratch.resize(nodes_.size());
    Picoseconds* end = scratch.data();
    const Picoseconds* takes = durations.data();
    end[0] = 0;
    for (std::size_t n = 1; n < nodes_.size(); ++n) {
        const Node& node = nodes_[n];
        const Picoseconds a = std::max(end[node.before[0]], end[node.before[1]]);
        const Picoseconds b = std::max(end[node.before[2]], end[node.before[3]]);
        end[n] = std::max(a, b) + takes[node.action_class];
    }
    ActionTimes times;
    for (const std::uint32_t node : ends_before_)
        times.start = std::max(times.start, end[node]);
    for (const std::uint32_t node : ends_)
        times.end = std::max(times.end, end[node]);
    times.computing.resize(tracks_);
    for (std::size_t c = 0; c < classes_.size(); ++c)
        if (classes_[c].computes)
            times.computing[static_cast<std::size_t>(classes_[c].tracks[0])] +=
                runs_[c] * durations[c];
    return times;
}

}  // namespace orrery::sim
