#include "trace/memory_over_time.hpp"

#include <algorithm>

#include "plan/ir/check.hpp"

namespace orrery::trace {
namespace {

struct Span {
    Picoseconds begin = -1;  // −1: none of its ops lies in the window
    Picoseconds end = 0;
};

// When each action runs, within the window. Of a step that was simulated twice the window holds
// one.
std::vector<Span> action_spans(const Trace& trace, const Track& track, const ProgramOps& program) {
    std::vector<Span> spans(program.actions.size());
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const Event& event = track.events[i];
        if (event.end <= trace.step_start || event.start >= trace.step_end) continue;
        Span& span = spans[program.step[i]];
        if (span.begin < 0 || event.start < span.begin) span.begin = event.start;
        span.end = std::max(span.end, event.end);
    }
    return spans;
}

}  // namespace

std::vector<std::int64_t> memory_over_time(const Trace& trace, const Track& track, int slices) {
    ORRERY_CHECK(slices > 0, "memory over time needs a slice");
    const ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
    const std::vector<Span> spans = action_spans(trace, track, program);
    std::vector<std::int64_t> live(static_cast<std::size_t>(slices), -1);
    const Picoseconds length = std::max<Picoseconds>(1, trace.step_end - trace.step_start);
    auto slice_of = [&](Picoseconds time) {
        const Picoseconds within = std::clamp<Picoseconds>(time - trace.step_start, 0, length - 1);
        return static_cast<std::size_t>(static_cast<double>(within) / static_cast<double>(length) *
                                        slices);
    };
    for (std::size_t s = 0; s < spans.size(); ++s) {
        if (spans[s].begin < 0) continue;
        const std::size_t last = slice_of(spans[s].end - 1);
        for (std::size_t slice = slice_of(spans[s].begin); slice <= last; ++slice)
            live[slice] = std::max(live[slice], program.live_bytes[s]);
    }
    std::int64_t before = program.live_bytes.empty() ? 0 : program.live_bytes.front();
    for (std::int64_t& bytes : live) {
        if (bytes < 0) bytes = before;
        before = bytes;
    }
    return live;
}

}  // namespace orrery::trace
