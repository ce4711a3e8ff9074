#include "gui/timeline/overlaid_lanes.hpp"

#include <algorithm>
#include <map>

#include "cli/quantity.hpp"
#include "trace/joining.hpp"

namespace orrery::gui {
namespace {

std::string length_text(Picoseconds time) {
    return cli::seconds_text(static_cast<double>(time) / trace::kPsPerSecond);
}

std::uint32_t step_of(const Timeline& timeline, const OpPlace& op) {
    return timeline.program_of(op.rank).step[static_cast<std::size_t>(op.event)];
}

const trace::OpName& name_of(const Timeline& timeline, const OpPlace& op) {
    return timeline.trace().op_of(timeline.track_of(op.rank), static_cast<std::size_t>(op.event));
}

std::string action_text(const Timeline& timeline, const OpPlace& op) {
    return trace::to_text(timeline.program_of(op.rank).actions[step_of(timeline, op)]);
}

}  // namespace

OverlaidLanes::OverlaidLanes(const Timeline& timeline,
                             std::shared_ptr<const Counterparts> counterparts, bool by_difference)
    : timeline_(timeline),
      counterparts_(std::move(counterparts)),
      others_(counterparts_->others()),
      by_difference_(by_difference),
      actions_(timeline.ranks().size()),
      streams_(timeline.ranks().size()) {
    for (std::size_t rank = 0; rank < others_.ranks().size(); ++rank)
        begins_.push_back(
            static_cast<std::int32_t>(trace::first_of_last_step(others_.program_of(rank))));
}

const OverlaidLane* OverlaidLanes::made(const Row& row) const {
    if (!row.stream) return actions_[row.rank] ? &*actions_[row.rank] : nullptr;
    return streams_[row.rank] ? &(*streams_[row.rank])[*row.stream] : nullptr;
}

void OverlaidLanes::make(const Row& row) {
    if (row.stream)
        streams_[row.rank] = streams_of(row.rank);
    else
        actions_[row.rank] = actions_of(row.rank);
}

// Each op's counterpart, and after it what has none there until the next that has one. What comes
// before the first that has one goes with that.
std::vector<LaidOp> OverlaidLanes::laid_over(std::size_t rank) const {
    std::vector<LaidOp> laid;
    const auto events = static_cast<std::int32_t>(timeline_.track_of(rank).events.size());
    for (std::int32_t event = 0; event < events; ++event) {
        const std::optional<OpPlace> there = counterparts_->of({rank, event});
        if (!there) continue;
        const auto ends = static_cast<std::int32_t>(others_.track_of(there->rank).events.size());
        const std::int32_t begins = begins_[there->rank];
        std::int32_t first = there->event;
        while (first > begins && counterparts_->alone({there->rank, first - 1}))
            --first;
        if (first == begins)
            for (; first < there->event; ++first)
                laid.push_back({{there->rank, first}});
        laid.push_back({*there, event});
        for (std::int32_t next = there->event + 1;
             next < ends && counterparts_->alone({there->rank, next}); ++next)
            laid.push_back({{there->rank, next}});
    }
    return laid;
}

Span OverlaidLanes::span_of(std::size_t rank, const LaidOp& op, std::size_t index) const {
    const Stretch times = times_there(op.there);
    Kind kind = Kind::alone;
    if (!by_difference_) {
        const trace::StepActions& actions =
            others_.program_of(op.there.rank).actions[step_of(others_, op.there)];
        kind = kind_of(name_of(others_, op.there), trace::gradient_of(actions));
    } else if (op.own >= 0) {
        kind = turned_round(counterparts_->difference_kind({rank, op.own}));
    }
    return {times.from, times.to, static_cast<std::int32_t>(index), kind};
}

OverlaidLane OverlaidLanes::actions_of(std::size_t rank) const {
    OverlaidLane made;
    std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> numbers;  // by rank and step
    std::vector<Span> spans;
    for (const LaidOp& op : laid_over(rank)) {
        if (name_of(others_, op.there).stream != plan::Stream::compute) continue;
        const auto [known, added] =
            numbers.try_emplace({op.there.rank, step_of(others_, op.there)}, made.ops.size());
        if (added)
            made.ops.push_back(op);
        else if (made.ops[known->second].own < 0)
            made.ops[known->second] = op;  // one that tells where it is here
        spans.push_back(span_of(rank, op, known->second));
    }
    made.lane = Lane("actions of the other step", one_after_another(std::move(spans)));
    return made;
}

std::vector<OverlaidLane> OverlaidLanes::streams_of(std::size_t rank) const {
    const std::vector<Lane>& own = timeline_.streams(rank);
    std::vector<std::size_t> lane_of(timeline_.track_of(rank).events.size());
    for (std::size_t lane = 0; lane < own.size(); ++lane)
        for (const Span& span : own[lane].spans())
            lane_of[static_cast<std::size_t>(span.index)] = lane;
    std::vector<OverlaidLane> made(own.size());
    std::vector<std::vector<Span>> spans(own.size());
    for (const LaidOp& op : laid_over(rank)) {
        std::size_t lane = 0;
        if (op.own >= 0) {
            lane = lane_of[static_cast<std::size_t>(op.own)];
        } else {
            // On the stream that is called like its own there, if this rank has one.
            const auto found = std::find_if(own.begin(), own.end(), [&](const Lane& candidate) {
                return candidate.name() == plan::name(name_of(others_, op.there).stream);
            });
            if (found == own.end()) continue;
            lane = static_cast<std::size_t>(found - own.begin());
        }
        spans[lane].push_back(span_of(rank, op, made[lane].ops.size()));
        made[lane].ops.push_back(op);
    }
    for (std::size_t lane = 0; lane < own.size(); ++lane)
        made[lane].lane = Lane(own[lane].name(), one_after_another(std::move(spans[lane])));
    return made;
}

Stretch OverlaidLanes::times_there(const OpPlace& there) const {
    const Picoseconds shift = timeline_.window().from - others_.window().from;
    const Stretch times = others_.times_of(there);
    return {times.from + shift, times.to + shift};
}

std::optional<Laid> OverlaidLanes::over(const OpPlace& op) const {
    const std::optional<OpPlace> there = counterparts_->of(op);
    if (!there) return std::nullopt;
    return Laid{*there, false, times_there(*there), timeline_.times_of(op)};
}

std::optional<Laid> OverlaidLanes::over_box(std::size_t rank, const Span& box) const {
    if (box.index < 0) return std::nullopt;  // waiting
    const std::optional<std::size_t> kernel = timeline_.kernel_from(rank, box.from);
    if (!kernel) return std::nullopt;
    std::optional<Laid> laid;
    const auto [first, end] = timeline_.ops_of_action({rank, static_cast<std::int32_t>(*kernel)});
    for (std::int32_t event = first; event < end; ++event) {
        const OpPlace own{rank, event};
        const Stretch here = timeline_.times_of(own);
        if (name_of(timeline_, own).stream != plan::Stream::compute || here.from < box.from ||
            here.to > box.to)
            continue;
        const std::optional<OpPlace> there = counterparts_->of(own);
        if (!there) continue;
        const Stretch times = times_there(*there);
        if (!laid) laid = Laid{*there, true, times, here};
        laid->times.from = std::min(laid->times.from, times.from);
        laid->times.to = std::max(laid->times.to, times.to);
        laid->here->from = std::min(laid->here->from, here.from);
        laid->here->to = std::max(laid->here->to, here.to);
    }
    return laid;
}

Laid OverlaidLanes::at(const Row& row, std::size_t span) const {
    const OverlaidLane& over = *made(row);
    const LaidOp& op = over.ops[static_cast<std::size_t>(over.lane.spans()[span].index)];
    Laid laid{op.there, !row.stream, times_there(op.there), std::nullopt};
    if (op.own >= 0) laid.here = timeline_.times_of({row.rank, op.own});
    return laid;
}

std::string OverlaidLanes::told(const Laid& laid) const {
    std::string text =
        (laid.action ? action_text(others_, laid.there) : others_.name_of(laid.there)) + " on " +
        others_.ranks()[laid.there.rank].name;
    text += ", takes " + length_text(laid.times.length());
    if (!laid.here) return text + ", in that step alone";
    return text + ", begins " + later_text(laid.times.from - laid.here->from);
}

}  // namespace orrery::gui
