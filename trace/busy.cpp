#include "trace/busy.hpp"

#include <algorithm>

namespace orrery::trace {
namespace {

std::array<Picoseconds, plan::kStreams> busy_of(const Trace& trace, const Track& track) {
    std::array<std::vector<Event>, plan::kStreams> streams;
    for (std::size_t i = 0; i < track.events.size(); ++i)
        streams[static_cast<std::size_t>(trace.op_of(track, i).stream)].push_back(track.events[i]);
    std::array<Picoseconds, plan::kStreams> busy{};
    for (std::size_t s = 0; s < plan::kStreams; ++s) {
        std::sort(streams[s].begin(), streams[s].end(),
                  [](const Event& a, const Event& b) { return a.start < b.start; });
        Picoseconds counted = trace.step_start;  // until here
        for (const Event& event : streams[s]) {
            const Picoseconds from = std::max(event.start, counted);
            const Picoseconds to = std::min(event.end, trace.step_end);
            busy[s] += std::max<Picoseconds>(0, to - from);
            counted = std::max(counted, to);
        }
    }
    return busy;
}

}  // namespace

std::array<double, plan::kStreams> mean_busy(const Trace& trace) {
    std::array<double, plan::kStreams> mean{};
    double ranks = 0;
    for (const Track& track : trace.tracks)
        ranks += static_cast<double>(track.represents());
    for (const Track& track : trace.tracks) {
        const auto busy = busy_of(trace, track);
        for (std::size_t s = 0; s < plan::kStreams; ++s)
            mean[s] += static_cast<double>(busy[s]) / kPsPerSecond *
                       static_cast<double>(track.represents()) / ranks;
    }
    return mean;
}

}  // namespace orrery::trace
