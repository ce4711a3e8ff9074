#include "gui/timeline/recorded_lanes.hpp"

#include <algorithm>

namespace orrery::gui {
namespace {

using trace::RecordedKind;
using trace::RecordedProcess;
using trace::RecordedSpan;

bool is_of_device(RecordedKind kind) {
    return kind <= RecordedKind::copy;
}

// Whether it is what the row of its process is made of.
bool is_work(const RecordedProcess& process, const RecordedSpan& span) {
    return process.is_device ? is_of_device(span.kind)
                             : span.kind == RecordedKind::op || span.kind == RecordedKind::call;
}

Kind shown_kind(const RecordedSpan& span) {
    switch (span.kind) {
        case RecordedKind::kernel:
            break;
        case RecordedKind::communication:
            return Kind::collective;
        case RecordedKind::transfer:
            return Kind::transfer;
        case RecordedKind::copy:
            return Kind::copy;
        default:
            return Kind::host;
    }
    switch (span.phase) {
        case plan::Phase::backward:
            return Kind::backward;
        case plan::Phase::recompute:
            return Kind::recompute;
        case plan::Phase::optimizer:
            return Kind::optimizer;
        case plan::Phase::forward:
            break;
    }
    return Kind::forward;
}

// Lower comes first where several go on at once.
int rank_of(RecordedKind kind) {
    if (kind == RecordedKind::kernel || !is_of_device(kind)) return 0;
    return kind == RecordedKind::copy ? 2 : 1;
}

// Appends a span from where the last one ends; nothing where it ends before that.
void append_apart(std::vector<Span>& spans, Span span) {
    if (!spans.empty()) span.from = std::max(span.from, spans.back().to);
    if (span.from < span.to) spans.push_back(span);
}

// `upper`, and of `lower` what lies between: both ascending and apart.
std::vector<Span> overlaid(const std::vector<Span>& upper, const std::vector<Span>& lower) {
    std::vector<Span> all;
    all.reserve(upper.size() + lower.size());
    std::size_t next = 0;
    for (Span below : lower) {
        while (next < upper.size() && upper[next].from <= below.from)
            all.push_back(upper[next++]);
        if (!all.empty()) below.from = std::max(below.from, all.back().to);
        while (next < upper.size() && upper[next].from < below.to) {
            if (below.from < upper[next].from)
                all.push_back({below.from, upper[next].from, below.index, below.kind});
            all.push_back(upper[next]);
            below.from = std::max(below.from, upper[next++].to);
        }
        if (below.from < below.to) all.push_back(below);
    }
    all.insert(all.end(), upper.begin() + static_cast<std::ptrdiff_t>(next), upper.end());
    return all;
}

}  // namespace

RankLanes recorded_lanes(const trace::RecordedTrace& trace, std::size_t number) {
    const RecordedProcess& process = trace.processes[number];
    std::array<std::vector<Span>, 3> by_rank;
    for (std::size_t i = 0; i < process.spans.size(); ++i) {
        const RecordedSpan& span = process.spans[i];
        if (!is_work(process, span)) continue;
        append_apart(by_rank[static_cast<std::size_t>(rank_of(span.kind))],
                     {span.start, span.end, static_cast<std::int32_t>(i), shown_kind(span)});
    }
    const std::vector<Span> work = overlaid(overlaid(by_rank[0], by_rank[1]), by_rank[2]);
    const Span all_idle{0, std::max<Picoseconds>(trace.end, 1), -1, Kind::idle};
    RankLanes lanes;
    lanes.track = number;
    lanes.name = process.name;
    lanes.outline = Lane("outline", overlaid(work, {all_idle}));
    lanes.work = lanes.outline;
    return lanes;
}

std::vector<Lane> recorded_streams(const trace::RecordedTrace& trace, std::size_t number) {
    const RecordedProcess& process = trace.processes[number];
    std::vector<std::size_t> first;  // lane of depth 0, by lane of the trace
    std::vector<std::string> names;
    for (const trace::RecordedLane& lane : process.lanes) {
        first.push_back(names.size());
        for (int depth = 0; depth < lane.depths; ++depth)
            names.push_back(depth == 0 ? lane.name : std::string());
    }
    std::vector<std::vector<Span>> spans(names.size());
    for (std::size_t i = 0; i < process.spans.size(); ++i) {
        const RecordedSpan& span = process.spans[i];
        std::vector<Span>& lane = spans[first[span.lane] + span.depth];
        // Apart already, but where a file goes deeper than depths are told.
        const Picoseconds from = lane.empty() ? span.start : std::max(span.start, lane.back().to);
        lane.push_back(
            {from, std::max(from, span.end), static_cast<std::int32_t>(i), shown_kind(span)});
    }
    std::vector<Lane> lanes;
    for (std::size_t i = 0; i < names.size(); ++i)
        lanes.emplace_back(std::move(names[i]), std::move(spans[i]));
    return lanes;
}

std::optional<OpPlace> launch_of(const trace::RecordedTrace& trace, const OpPlace& op) {
    const RecordedSpan& span = trace.processes[op.rank].spans[static_cast<std::size_t>(op.event)];
    if (span.partner == trace::kNoSpan || !is_of_device(span.kind)) return std::nullopt;
    return OpPlace{span.partner_process, static_cast<std::int32_t>(span.partner)};
}

std::optional<OpPlace> launched_by(const trace::RecordedTrace& trace, const OpPlace& op) {
    const RecordedSpan& span = trace.processes[op.rank].spans[static_cast<std::size_t>(op.event)];
    if (span.partner == trace::kNoSpan || is_of_device(span.kind)) return std::nullopt;
    return OpPlace{span.partner_process, static_cast<std::int32_t>(span.partner)};
}

std::optional<std::size_t> recorded_kernel_from(const trace::RecordedTrace& trace,
                                                std::size_t number, Picoseconds time) {
    const RecordedProcess& process = trace.processes[number];
    auto found = std::partition_point(process.spans.begin(), process.spans.end(),
                                      [&](const RecordedSpan& span) { return span.start < time; });
    while (found != process.spans.end() && !is_work(process, *found))
        ++found;
    if (found == process.spans.end()) return std::nullopt;
    return static_cast<std::size_t>(found - process.spans.begin());
}

}  // namespace orrery::gui
