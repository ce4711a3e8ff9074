#include "calib/measure/step_communication.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "plan/check.hpp"

namespace orrery::measure {
namespace {

bool computes(const trace::Trace& trace, const trace::Track& track, std::size_t id) {
    return trace.op_of(track, id).stream == plan::Stream::compute;
}

// Op ids of the collectives of a rank by their group, in the order of the calls.
using Calls = std::array<std::vector<std::size_t>, plan::kGroupKinds>;
Calls calls_of(const trace::Trace& trace, const trace::Track& track) {
    Calls calls;
    for (std::size_t id = 0; id < track.events.size(); ++id) {
        const trace::OpName& op = trace.op_of(track, id);
        if (plan::is_communication(op.kind) && op.kind != plan::OpKind::exchange)
            calls[static_cast<std::size_t>(op.group)].push_back(id);
    }
    return calls;
}

// Of a rank's communication, the part that the member who came last had in it.
class LastPeers {
  public:
    LastPeers(const trace::Trace& trace, const trace::Track& track) : trace_(trace), track_(track) {
        for (const auto& ids : calls_of(trace, track))
            for (std::size_t call = 0; call < ids.size(); ++call)
                call_of_[ids[call]] = call;
    }

    // Nothing: this rank came last.
    std::optional<trace::Event> of(std::size_t id) {
        const trace::Event event = track_.events[id];
        if (event.late_track < 0) return std::nullopt;
        const trace::Track& late = trace_.tracks[static_cast<std::size_t>(event.late_track)];
        const trace::OpName& op = trace_.op_of(track_, id);
        if (op.kind == plan::OpKind::exchange) return begun_at(late, event.start);
        const auto [calls, made] = calls_.try_emplace(event.late_track);
        if (made) calls->second = calls_of(trace_, late);
        const auto& ids = calls->second[static_cast<std::size_t>(op.group)];
        ORRERY_CHECK(call_of_.at(id) < ids.size(), "members make the same calls");
        return late.events[ids[call_of_.at(id)]];
    }

  private:
    std::optional<trace::Event> begun_at(const trace::Track& late, trace::Picoseconds start) const {
        for (std::size_t id = 0; id < late.events.size(); ++id) {
            if (trace_.op_of(late, id).kind != plan::OpKind::exchange) continue;
            const trace::Event event = late.events[id];
            if (event.start == start) return event;
        }
        return std::nullopt;
    }

    const trace::Trace& trace_;
    const trace::Track& track_;
    std::map<std::size_t, std::size_t> call_of_;  // of its group's, by op id
    std::map<std::int32_t, Calls> calls_;         // of other tracks
};

}  // namespace

std::vector<Passage> passages(const trace::Trace& trace, const trace::Track& track) {
    std::vector<Passage> found(track.events.size());
    LastPeers peers(trace, track);
    for (std::size_t id = 0; id < found.size(); ++id) {
        if (!plan::is_communication(trace.op_of(track, id).kind)) continue;
        const trace::Event event = track.events[id];
        const std::optional<trace::Event> peer = peers.of(id);
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
