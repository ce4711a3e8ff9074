#include "calib/measure/step_communication.hpp"

#include <algorithm>
#include <optional>

#include "plan/check.hpp"

namespace orrery::measure {
namespace {

bool computes(const trace::Trace& trace, const trace::Track& track, std::size_t id) {
    return trace.op_of(track, id).stream == plan::Stream::compute;
}

// Nothing: this rank came last.
std::optional<trace::Event> last_peer(const trace::Trace& trace, const trace::Track& track,
                                      std::size_t id) {
    const trace::Event event = track.events[id];
    if (event.late_track < 0) return std::nullopt;
    const trace::Track& late = trace.tracks[static_cast<std::size_t>(event.late_track)];
    if (trace.op_of(track, id).kind != plan::OpKind::exchange) return late.events[id];
    for (std::size_t other = 0; other < late.events.size(); ++other)
        if (trace.op_of(late, other).kind == plan::OpKind::exchange &&
            late.events[other].start == event.start)
            return late.events[other];
    return std::nullopt;
}

}  // namespace

std::vector<Passage> passages(const trace::Trace& trace, const trace::Track& track) {
    std::vector<Passage> found(track.events.size());
    for (std::size_t id = 0; id < found.size(); ++id) {
        if (!plan::is_communication(trace.op_of(track, id).kind)) continue;
        const trace::Event event = track.events[id];
        const std::optional<trace::Event> peer = last_peer(trace, track, id);
        const trace::Picoseconds ready = peer ? std::max(event.ready, peer->ready) : event.ready;
        found[id] = {event.ready, std::min(ready, event.end), event.end, false};
    }
    for (std::size_t id = 0; id < found.size(); ++id) {
        const trace::Event event = track.events[id];
        if (!computes(trace, track, id) || event.blocker < 0) continue;
        const auto blocker = static_cast<std::size_t>(event.blocker);
        if (!plan::is_communication(trace.op_of(track, blocker).kind)) continue;
        Passage& passage = found[blocker];
        if (!passage.awaited) passage.over = std::max(passage.over, event.start);
        passage.awaited = true;
    }
    return found;
}

double hidden_s(const trace::Trace& trace, const trace::Track& track, const Passage& passage) {
    double hidden = 0;
    for (std::size_t id = 0; id < track.events.size(); ++id) {
        if (!computes(trace, track, id)) continue;
        const trace::Event other = track.events[id];
        const auto both = std::min(passage.over, other.end) - std::max(passage.came, other.start);
        hidden += static_cast<double>(std::max<trace::Picoseconds>(0, both)) / trace::kPsPerSecond;
    }
    return hidden;
}

}  // namespace orrery::measure
