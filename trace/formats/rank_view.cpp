#include "trace/formats/rank_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>
#include <set>
#include <utility>

namespace orrery::trace::viewer {
namespace {

const ProgramOps& program_of(const Trace& trace, const Track& track) {
    return trace.programs[static_cast<std::size_t>(track.program)];
}

// Spreads slices over as few lanes as there are slices at once, and adds those to `lanes`.
void add_lanes(std::vector<Lane>& lanes, const std::string& name, bool of_actions,
               std::vector<Slice> slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        if (a.start != b.start) return a.start < b.start;
        return a.end != b.end ? a.end < b.end : a.index < b.index;
    });
    using FreeFrom = std::pair<Picoseconds, std::size_t>;  // and the lane
    std::priority_queue<FreeFrom, std::vector<FreeFrom>, std::greater<>> free;
    for (const Slice& slice : slices) {
        std::size_t lane = lanes.size();
        if (!free.empty() && free.top().first <= slice.start) {
            lane = free.top().second;
            free.pop();
        } else {
            const std::size_t number = free.size() + 1;
            lanes.push_back(
                {number == 1 ? name : fmt::format("{} ({})", name, number), of_actions, {}});
        }
        lanes[lane].slices.push_back(slice);
        free.push({slice.end, lane});
    }
}

std::vector<Slice> action_slices(const Trace& trace, const Track& track) {
    const ProgramOps& program = program_of(trace, track);
    std::vector<Slice> by_step(program.actions.size(), Slice{0, 0, -1});
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        if (trace.op_of(track, i).stream != plan::Stream::compute) continue;
        const Event event = track.events[i];
        Slice& slice = by_step[program.step[i]];
        const bool first = slice.index < 0;
        slice.start = first ? event.start : std::min(slice.start, event.start);
        slice.end = first ? event.end : std::max(slice.end, event.end);
        slice.index = static_cast<std::int32_t>(program.step[i]);
    }
    by_step.erase(std::remove_if(by_step.begin(), by_step.end(),
                                 [](const Slice& slice) { return slice.index < 0; }),
                  by_step.end());
    return by_step;
}

std::string words(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
}

}  // namespace

RankView rank_view(const Trace& trace, const Track& track) {
    RankView view;
    view.name =
        fmt::format("rank {} · pipeline {}", track.rank, program_of(trace, track).pipeline_rank);
    if (track.represents() > 1) view.name += fmt::format(" · x{} alike", track.represents());
    add_lanes(view.lanes, "actions", true, action_slices(trace, track));
    std::array<std::vector<Slice>, plan::kStreams> streams;
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const Event event = track.events[i];
        streams[static_cast<std::size_t>(trace.op_of(track, i).stream)].push_back(
            {event.start, event.end, static_cast<std::int32_t>(i)});
    }
    for (std::size_t s = 0; s < plan::kStreams; ++s)
        add_lanes(view.lanes, std::string(plan::name(static_cast<plan::Stream>(s))), false,
                  std::move(streams[s]));
    view.memory = memory_changes(trace, track);
    return view;
}

std::string slice_name(const Trace& trace, const ProgramOps& program, std::size_t event) {
    const OpName& op = trace.ops[program.op[event]];
    std::string text = to_text(program.actions[program.step[event]]);
    if (op.kind == plan::OpKind::exchange) return text;
    text += ' ' + (op.label.empty() ? op.block : op.label);
    // A layer's residual additions and collectives bear the label of the product beside them.
    if (plan::is_communication(op.kind) || op.kind == plan::OpKind::residual_add)
        text += ' ' + words(plan::name(op.kind));
    if (op.phase == plan::Phase::recompute) text += " recompute";
    return text;
}

std::vector<std::string_view> categories_of(const OpName& op) {
    if (op.kind == plan::OpKind::exchange) return {plan::name(op.kind)};
    return {plan::name(op.kind), plan::name(op.phase)};
}

std::string waited_for(const Trace& trace, const Track& track, std::size_t event) {
    const std::int32_t blocker = track.events[event].blocker;
    if (blocker >= 0)
        return slice_name(trace, program_of(trace, track), static_cast<std::size_t>(blocker));
    return blocker == kHost ? "the host" : "";
}

std::vector<std::int32_t> process_ids(const Trace& trace) {
    std::set<std::int64_t> ranks;
    for (const Track& track : trace.tracks)
        ranks.insert(track.rank);
    const bool by_rank =
        ranks.size() == trace.tracks.size() && (ranks.empty() || *ranks.rbegin() < INT32_MAX);
    std::vector<std::int32_t> ids;
    for (const Track& track : trace.tracks)
        ids.push_back(static_cast<std::int32_t>(by_rank ? track.rank : std::int64_t(ids.size())) +
                      1);
    return ids;
}

ViewerClock::ViewerClock(const Trace& trace)
    : origin_ps_(std::min<Picoseconds>(0, trace.step_start)) {
    for (const Track& track : trace.tracks)
        for (const Event event : track.events)
            origin_ps_ = std::min(origin_ps_, event.start);
}

}  // namespace orrery::trace::viewer
