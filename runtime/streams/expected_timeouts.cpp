#include "runtime/streams/expected_timeouts.hpp"

#include <algorithm>

namespace orrery::runtime {
namespace {

double seconds(trace::Picoseconds time) {
    return static_cast<double>(time) * 1e-12;
}

}  // namespace

CallTimeouts expected_timeouts(const trace::Trace& trace) {
    CallTimeouts timeouts;
    for (const trace::Track& track : trace.tracks)
        for (std::size_t id = 0; id < track.events.size(); ++id) {
            const trace::OpName& op = trace.op_of(track, id);
            if (!plan::is_communication(op.kind)) continue;
            const trace::Event event = track.events[id];
            double& longest = timeouts.expected_s[op.label];
            longest = std::max(longest, seconds(event.end - event.ready));
        }
    const std::chrono::duration<double> step(timeouts.factor * seconds(trace.step_end));
    timeouts.usual = std::max(timeouts.least, std::chrono::ceil<std::chrono::milliseconds>(step));
    return timeouts;
}

}  // namespace orrery::runtime
