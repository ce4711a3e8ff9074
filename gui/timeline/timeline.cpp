#include "gui/timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <tbb/parallel_for.h>

#include "cli/quantity.hpp"
#include "gui/timeline/recorded_lanes.hpp"
#include "trace/formats/rank_view.hpp"

namespace orrery::gui {
namespace {

// Kernels of one action and kind without a gap between them are one span. A measured stream may
// say that a kernel began before the one before it had ended: it then shows from there on.
std::vector<Span> work_spans(const trace::Trace& trace, const trace::Track& track) {
    std::vector<Span> spans;
    for (const trace::Piece& piece : work_pieces(trace, track))
        spans.push_back({piece.from, piece.to, piece.step, kind_of(piece.paint)});
    return one_after_another(std::move(spans));
}

std::vector<Span> waiting_spans(const trace::Trace& trace, const trace::Track& track) {
    std::vector<Span> spans;
    for (const trace::AccountSpan& span : account_spans(trace, track))
        if (const std::optional<Kind> kind = waiting_kind(span.account))
            spans.push_back({span.from, span.to, -1, *kind});
    return spans;
}

// Whether an action that waits so is drawn in two parts: it waits for a rank that is not there,
// rather than for what is on its way.
bool parts_actions(Kind waiting) {
    return waiting == Kind::bubble || waiting == Kind::imbalance;
}

std::vector<Span> outline_of(const std::vector<Span>& all) {
    std::vector<Span> outline;
    std::size_t waits = 0;  // of the last spans of the outline, within an action so far
    for (const Span& span : all) {
        const std::size_t action = outline.size() - waits;  // behind it
        const bool goes_on =
            span.index >= 0 && action > 0 && outline[action - 1].index == span.index;
        if (goes_on) {
            outline.resize(action);
            outline.back().to = span.to;
            // Of an action with its recomputation, the gradient tells what it is.
            if (span.kind != Kind::recompute) outline.back().kind = span.kind;
            waits = 0;
            continue;
        }
        outline.push_back(span);
        const bool may_go_on = span.index < 0 && !parts_actions(span.kind);
        waits = may_go_on && action > 0 ? waits + 1 : 0;
    }
    return outline;
}

RankLanes lanes_of(const trace::Trace& trace, std::size_t number) {
    const trace::Track& track = trace.tracks[number];
    RankLanes lanes;
    lanes.track = number;
    lanes.pipeline_rank = trace.programs[static_cast<std::size_t>(track.program)].pipeline_rank;
    lanes.name = fmt::format("pp {} · rank {}", lanes.pipeline_rank, track.rank);
    if (track.represents() > 1)
        lanes.alike = fmt::format("×{} identical ranks", cli::whole_text(track.represents()));
    const std::vector<Span> work = work_spans(trace, track);
    const std::vector<Span> waiting = waiting_spans(trace, track);
    std::vector<Span> all;
    all.reserve(work.size() + waiting.size());
    std::merge(work.begin(), work.end(), waiting.begin(), waiting.end(), std::back_inserter(all),
               [](const Span& a, const Span& b) { return a.from < b.from; });
    lanes.outline = Lane("outline", outline_of(all));
    lanes.work = Lane("work", std::move(all));
    return lanes;
}

Stretch widened(Stretch stretch, const trace::Track& track) {
    for (const trace::Event event : track.events) {
        stretch.from = std::min(stretch.from, event.start);
        stretch.to = std::max(stretch.to, event.end);
    }
    return stretch;
}

}  // namespace

Timeline::Timeline(std::shared_ptr<const trace::Trace> trace)
    : trace_(std::move(trace)), window_{trace_->step_start, trace_->step_end}, limits_(window_) {
    std::vector<std::size_t> shown;
    for (std::size_t t = 0; t < trace_->tracks.size(); ++t)
        if (!trace_->tracks[t].events.empty()) shown.push_back(t);
    ranks_.resize(shown.size());
    std::vector<Stretch> stretches(shown.size());
    tbb::parallel_for(std::size_t{0}, shown.size(), [&](std::size_t i) {
        ranks_[i] = lanes_of(*trace_, shown[i]);
        stretches[i] = widened(window_, trace_->tracks[shown[i]]);
    });
    for (const Stretch& stretch : stretches) {
        limits_.from = std::min(limits_.from, stretch.from);
        limits_.to = std::max(limits_.to, stretch.to);
    }
    limits_.to = std::max(limits_.to, limits_.from + 1);
    std::stable_sort(ranks_.begin(), ranks_.end(), [&](const RankLanes& a, const RankLanes& b) {
        if (a.pipeline_rank != b.pipeline_rank) return a.pipeline_rank < b.pipeline_rank;
        return trace_->tracks[a.track].rank < trace_->tracks[b.track].rank;
    });
    streams_.resize(ranks_.size());
    memory_.resize(ranks_.size());
}

std::shared_ptr<const Timeline> Timeline::of_estimate(trace::Trace trace) {
    auto timeline =
        std::make_shared<Timeline>(std::make_shared<const trace::Trace>(std::move(trace)));
    timeline->is_estimate_ = true;
    return timeline;
}

Timeline::Timeline(std::shared_ptr<const trace::RecordedTrace> recorded)
    : recorded_(std::move(recorded)),
      window_{0, std::max<Picoseconds>(recorded_->end, 1)},
      limits_(window_) {
    ranks_.resize(recorded_->processes.size());
    tbb::parallel_for(std::size_t{0}, ranks_.size(),
                      [&](std::size_t i) { ranks_[i] = recorded_lanes(*recorded_, i); });
    streams_.resize(ranks_.size());
    memory_.resize(ranks_.size(), std::vector<trace::MemoryChange>());
}

std::string Timeline::name_of(const OpPlace& op) const {
    const auto event = static_cast<std::size_t>(op.event);
    if (recorded_) return recorded_->names[recorded_->processes[op.rank].spans[event].name];
    return trace::viewer::slice_name(*trace_, program_of(op.rank), event);
}

Stretch Timeline::times_of(const OpPlace& op) const {
    const auto number = static_cast<std::size_t>(op.event);
    if (recorded_) {
        const trace::RecordedSpan& span = recorded_->processes[op.rank].spans[number];
        return {span.start, span.end};
    }
    const trace::Event event = track_of(op.rank).events[number];
    return {event.start, event.end};
}

std::optional<OpPlace> Timeline::blocker_of(const OpPlace& op) const {
    if (recorded_) return launch_of(*recorded_, op);
    const std::int32_t blocker =
        track_of(op.rank).events[static_cast<std::size_t>(op.event)].blocker;
    if (blocker < 0) return std::nullopt;
    return OpPlace{op.rank, blocker};
}

std::optional<OpPlace> Timeline::waiter_of(const OpPlace& op) const {
    if (recorded_) return launched_by(*recorded_, op);
    const trace::Events& events = track_of(op.rank).events;
    for (std::size_t i = static_cast<std::size_t>(op.event) + 1; i < events.size(); ++i)
        if (events[i].blocker == op.event) return OpPlace{op.rank, static_cast<std::int32_t>(i)};
    return std::nullopt;
}

std::pair<std::int32_t, std::int32_t> Timeline::ops_of_action(const OpPlace& op) const {
    const std::vector<std::uint32_t>& steps = program_of(op.rank).step;
    const auto middle = steps.begin() + op.event;
    auto first = middle;
    while (first != steps.begin() && *std::prev(first) == *middle)
        --first;
    const auto last = std::find_if(middle, steps.end(), [&](auto step) { return step != *middle; });
    return {static_cast<std::int32_t>(first - steps.begin()),
            static_cast<std::int32_t>(last - steps.begin())};
}

const std::vector<trace::MemoryChange>& Timeline::memory(std::size_t rank) const {
    if (!memory_[rank]) memory_[rank] = memory_changes(*trace_, track_of(rank));
    return *memory_[rank];
}

const std::vector<Lane>& Timeline::streams(std::size_t rank) const {
    std::optional<std::vector<Lane>>& made = streams_[rank];
    if (made) return *made;
    if (recorded_) return made.emplace(recorded_streams(*recorded_, rank));
    made.emplace();
    const trace::Track& track = track_of(rank);
    const trace::ProgramOps& program = program_of(rank);
    trace::viewer::RankView view = trace::viewer::rank_view(*trace_, track);
    for (trace::viewer::Lane& lane : view.lanes) {
        if (lane.of_actions) continue;
        std::vector<Span> spans;
        spans.reserve(lane.slices.size());
        for (const trace::viewer::Slice& slice : lane.slices) {
            const auto event = static_cast<std::size_t>(slice.index);
            const trace::StepActions& actions = program.actions[program.step[event]];
            spans.push_back({slice.start, slice.end, slice.index,
                             kind_of(trace_->op_of(track, event), trace::gradient_of(actions))});
        }
        made->emplace_back(std::move(lane.name), std::move(spans));
    }
    return *made;
}

std::optional<std::size_t> Timeline::rank_of_track(std::size_t track) const {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                    [&](const RankLanes& rank) { return rank.track == track; });
    if (found == ranks_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ranks_.begin());
}

std::optional<std::size_t> Timeline::kernel_from(std::size_t rank, Picoseconds time) const {
    if (recorded_) return recorded_kernel_from(*recorded_, rank, time);
    const trace::Track& track = track_of(rank);
    std::optional<std::size_t> found;
    Picoseconds earliest = 0;
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        if (trace_->op_of(track, i).stream != plan::Stream::compute) continue;
        const Picoseconds start = track.events[i].start;
        if (start < time || (found && start >= earliest)) continue;
        found = i;
        earliest = start;
    }
    return found;
}

}  // namespace orrery::gui
