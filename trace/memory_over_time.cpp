#include "trace/memory_over_time.hpp"

#include <algorithm>
#include <set>

#include "plan/check.hpp"

namespace orrery::trace {
namespace {

struct Span {
    bool any = false;  // whether one of its ops counts
    Picoseconds begin = 0;
    Picoseconds end = 0;
};

// When each action runs, by the events for which counts(event).
template <typename Counts>
std::vector<Span> action_spans(const Track& track, const ProgramOps& program, Counts counts) {
    std::vector<Span> spans(program.actions.size());
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const Event event = track.events[i];
        if (!counts(event)) continue;
        Span& span = spans[program.step[i]];
        span.begin = span.any ? std::min(span.begin, event.start) : event.start;
        span.end = span.any ? std::max(span.end, event.end) : event.end;
        span.any = true;
    }
    return spans;
}

// What an action's memory does at a moment. The order is that of moments that are one: what ends
// makes place before what begins takes it, unless it lasts no time at all.
enum class Turn : std::uint8_t { ends, begins, ends_at_once };

struct Point {
    Picoseconds at = 0;
    Turn turn = Turn::begins;
    std::int64_t live_bytes = 0;
};

std::vector<Point> points_of(const std::vector<Span>& spans, const ProgramOps& program) {
    std::vector<Point> points;
    for (std::size_t s = 0; s < spans.size(); ++s) {
        const Span& span = spans[s];
        if (!span.any) continue;
        points.push_back({span.begin, Turn::begins, program.live_bytes[s]});
        points.push_back({span.end, span.end > span.begin ? Turn::ends : Turn::ends_at_once,
                          program.live_bytes[s]});
    }
    std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
        return a.at != b.at ? a.at < b.at : a.turn < b.turn;
    });
    return points;
}

}  // namespace

std::vector<std::int64_t> memory_over_time(const Trace& trace, const Track& track, int slices) {
    ORRERY_CHECK(slices > 0, "memory over time needs a slice");
    const ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
    // Of a step that was simulated twice the window holds one.
    const std::vector<Span> spans = action_spans(track, program, [&](const Event& event) {
        return event.end > trace.step_start && event.start < trace.step_end;
    });
    std::vector<std::int64_t> live(static_cast<std::size_t>(slices), -1);
    const Picoseconds length = std::max<Picoseconds>(1, trace.step_end - trace.step_start);
    auto slice_of = [&](Picoseconds time) {
        const Picoseconds within = std::clamp<Picoseconds>(time - trace.step_start, 0, length - 1);
        return static_cast<std::size_t>(static_cast<double>(within) / static_cast<double>(length) *
                                        slices);
    };
    for (std::size_t s = 0; s < spans.size(); ++s) {
        if (!spans[s].any) continue;
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

std::vector<MemoryChange> memory_changes(const Trace& trace, const Track& track) {
    const ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
    const std::vector<Point> points =
        points_of(action_spans(track, program, [](const Event&) { return true; }), program);
    std::vector<MemoryChange> changes;
    std::multiset<std::int64_t> alive;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const Point& point = points[i];
        if (point.turn == Turn::begins)
            alive.insert(point.live_bytes);
        else
            alive.erase(alive.find(point.live_bytes));
        // What ends and begins at one moment counts together, but for what lasts no time.
        const bool more = i + 1 < points.size() && points[i + 1].at == point.at &&
                          points[i + 1].turn != Turn::ends_at_once;
        if (more || alive.empty()) continue;
        const std::int64_t live_bytes = *alive.rbegin();
        if (changes.empty() || changes.back().live_bytes != live_bytes)
            changes.push_back({point.at, live_bytes});
    }
    return changes;
}

}  // namespace orrery::trace
