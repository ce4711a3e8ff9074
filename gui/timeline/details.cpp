#include "gui/timeline/details.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "trace/formats/rank_view.hpp"

namespace orrery::gui {
namespace {

std::string time_text(Picoseconds time) {
    return cli::seconds_text(static_cast<double>(time) / trace::kPsPerSecond);
}

// Times count from the start of the step, as the axis does.
void add_times(const Timeline& timeline, Picoseconds from, Picoseconds to, Details& details) {
    details.lines.emplace_back("start", time_text(from - timeline.window().from));
    details.lines.emplace_back("duration", time_text(to - from));
    details.lines.emplace_back("end", time_text(to - timeline.window().from));
}

void add_rank(const Timeline& timeline, std::size_t rank, Details& details) {
    const RankLanes& lanes = timeline.ranks()[rank];
    details.lines.emplace_back("rank", lanes.name);
    if (!lanes.alike.empty()) details.lines.emplace_back("stands for", lanes.alike);
}

void add_micro_batch(const trace::StepActions& actions, Details& details) {
    const plan::Action& action = actions.front();
    details.lines.emplace_back("stage", std::to_string(action.stage));
    if (action.micro_batch >= 0)
        details.lines.emplace_back("micro-batch", std::to_string(action.micro_batch));
}

// Who an event waited for last, and for how long after it was ready.
void add_waiting(const Timeline& timeline, const OpPlace& place, Details& details) {
    const trace::Track& track = timeline.track_of(place.rank);
    const auto number = static_cast<std::size_t>(place.event);
    const trace::Event event = track.events[number];
    const std::string last = trace::viewer::waited_for(timeline.trace(), track, number);
    if (!last.empty()) details.lines.emplace_back("waited last for", last);
    if (event.start > event.ready)
        details.lines.emplace_back("ready before", time_text(event.start - event.ready));
    if (event.late_track >= 0) {
        const auto late = timeline.rank_of_track(static_cast<std::size_t>(event.late_track));
        details.lines.emplace_back("came last", late ? timeline.ranks()[*late].name
                                                     : fmt::format("track {}", event.late_track));
    }
    if (event.blocker >= 0) details.blocker = OpPlace{place.rank, event.blocker};
}

const char* text_of(trace::RecordedKind kind) {
    switch (kind) {
        case trace::RecordedKind::kernel:
            return "kernel";
        case trace::RecordedKind::communication:
            return "kernel of a collective";
        case trace::RecordedKind::transfer:
            return "kernel of a transfer";
        case trace::RecordedKind::copy:
            return "copy";
        case trace::RecordedKind::op:
            return "operator";
        case trace::RecordedKind::call:
            return "call into the device's runtime";
        case trace::RecordedKind::annotation:
            return "annotation";
        case trace::RecordedKind::other:
            break;
    }
    return "other";
}

Details recorded_details(const Timeline& timeline, const OpPlace& place) {
    const trace::RecordedProcess& process = timeline.recorded()->processes[place.rank];
    const trace::RecordedSpan& span = process.spans[static_cast<std::size_t>(place.event)];
    Details details;
    details.title = timeline.name_of(place);
    details.lines.emplace_back("what", text_of(span.kind));
    details.lines.emplace_back("of", process.name);
    details.lines.emplace_back("on", process.lanes[span.lane].name);
    if (span.kind != trace::RecordedKind::other)
        details.lines.emplace_back("pass", std::string(plan::name(span.phase)));
    add_times(timeline, span.start, span.end, details);
    details.blocker = timeline.blocker_of(place);
    if (details.blocker) {
        details.lines.emplace_back("launched by", timeline.name_of(*details.blocker));
        details.lines.emplace_back(
            "launched before", time_text(span.start - timeline.times_of(*details.blocker).from));
    }
    if (const std::optional<OpPlace> launched = timeline.waiter_of(place))
        details.lines.emplace_back("launches", timeline.name_of(*launched));
    return details;
}

// Why a device had nothing to do: what came next had not been launched, or it had, and waited for
// something that the trace does not name.
Details idle_details(const Timeline& timeline, std::size_t rank, const Span& span) {
    Details details;
    details.title = gui::text_of(span.kind);
    details.lines.emplace_back("of", timeline.ranks()[rank].name);
    add_times(timeline, span.from, span.to, details);
    const std::optional<std::size_t> next = timeline.kernel_from(rank, span.to);
    if (!next) return details;
    const OpPlace place{rank, static_cast<std::int32_t>(*next)};
    details.lines.emplace_back("next", timeline.name_of(place));
    details.blocker = timeline.blocker_of(place);
    if (!details.blocker) return details;
    const Stretch launch = timeline.times_of(*details.blocker);
    const Picoseconds late = std::clamp(launch.from, span.from, span.to) - span.from;
    details.lines.emplace_back("of it before the host launched that", time_text(late));
    return details;
}

Details waiting_details(const Timeline& timeline, std::size_t rank, const Span& span) {
    Details details;
    details.title = text_of(span.kind);
    add_rank(timeline, rank, details);
    add_times(timeline, span.from, span.to, details);
    const std::optional<std::size_t> next = timeline.kernel_from(rank, span.to);
    if (!next) return details;
    const OpPlace place{rank, static_cast<std::int32_t>(*next)};
    details.lines.emplace_back(
        "next", trace::viewer::slice_name(timeline.trace(), timeline.program_of(rank), *next));
    add_waiting(timeline, place, details);
    return details;
}

}  // namespace

Details op_details(const Timeline& timeline, const OpPlace& place) {
    if (timeline.recorded() != nullptr) return recorded_details(timeline, place);
    const trace::Track& track = timeline.track_of(place.rank);
    const trace::ProgramOps& program = timeline.program_of(place.rank);
    const auto number = static_cast<std::size_t>(place.event);
    const trace::Event event = track.events[number];
    const trace::OpName& op = timeline.trace().op_of(track, number);
    Details details;
    details.title = trace::viewer::slice_name(timeline.trace(), program, number);
    add_rank(timeline, place.rank, details);
    add_micro_batch(program.actions[program.step[number]], details);
    if (program.layer[number] >= 0)
        details.lines.emplace_back("layer", std::to_string(program.layer[number]));
    // A pass as a whole has ops of many kinds.
    if (!timeline.is_estimate()) details.lines.emplace_back("op", std::string(plan::name(op.kind)));
    details.lines.emplace_back("block", op.block);
    details.lines.emplace_back("stream", std::string(plan::name(op.stream)));
    if (op.group != plan::GroupKind::none)
        details.lines.emplace_back("group", std::string(plan::name(op.group)));
    if (op.flops > 0) details.lines.emplace_back("work", cli::scaled_text(op.flops, "FLOP"));
    if (op.bytes > 0) details.lines.emplace_back("bytes", cli::bytes_text(op.bytes));
    if (op.sent_bytes > 0) details.lines.emplace_back("sent", cli::bytes_text(op.sent_bytes));
    add_times(timeline, event.start, event.end, details);
    add_waiting(timeline, place, details);
    return details;
}

Details work_details(const Timeline& timeline, std::size_t rank, const Span& span) {
    if (timeline.recorded() != nullptr)
        return span.index >= 0 ? recorded_details(timeline, {rank, span.index})
                               : idle_details(timeline, rank, span);
    if (span.index < 0) return waiting_details(timeline, rank, span);
    const trace::ProgramOps& program = timeline.program_of(rank);
    const auto step = static_cast<std::size_t>(span.index);
    Details details;
    details.title = trace::to_text(program.actions[step]) + ' ' + text_of(span.kind);
    add_rank(timeline, rank, details);
    add_micro_batch(program.actions[step], details);
    add_times(timeline, span.from, span.to, details);
    const KindSums sums = timeline.ranks()[rank].work.within(span.from, span.to);
    for (std::size_t kind = 0; kind < kKinds; ++kind)
        if (sums[kind] > 0)
            details.lines.emplace_back(text_of(static_cast<Kind>(kind)), time_text(sums[kind]));
    details.lines.emplace_back("memory alive",
                               cli::bytes_text(static_cast<double>(program.live_bytes[step])));
    const std::optional<std::size_t> first = timeline.kernel_from(rank, span.from);
    if (first) add_waiting(timeline, {rank, static_cast<std::int32_t>(*first)}, details);
    return details;
}

std::string brief(const Details& details) {
    std::string text = details.title;
    for (const auto& [what, value] : details.lines)
        if (what == "duration" || what == "waited last for" || what == "came last")
            text += (what == "duration" ? " · " : " · " + what + ' ') + value;
    return text;
}

}  // namespace orrery::gui
