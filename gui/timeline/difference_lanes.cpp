#include "gui/timeline/difference_lanes.hpp"

#include <algorithm>

namespace orrery::gui {

DifferenceLanes::DifferenceLanes(const Timeline& timeline,
                                 std::shared_ptr<const Counterparts> counterparts)
    : timeline_(timeline),
      counterparts_(std::move(counterparts)),
      lanes_(timeline.ranks().size()),
      streams_(timeline.ranks().size()) {}

const DifferenceLanes::Lanes& DifferenceLanes::of(std::size_t rank) const {
    std::optional<Lanes>& made = lanes_[rank];
    if (made) return *made;
    const RankLanes& own = timeline_.ranks()[rank];
    const trace::Track& track = timeline_.track_of(rank);
    const trace::ProgramOps& program = timeline_.program_of(rank);
    std::vector<Span> ops;
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        if (timeline_.trace().op_of(track, i).stream != plan::Stream::compute) continue;
        const trace::Event event = track.events[i];
        ops.push_back({event.start, event.end, static_cast<std::int32_t>(program.step[i]),
                       counterparts_->difference_kind({rank, static_cast<std::int32_t>(i)})});
    }
    ops = one_after_another(std::move(ops));
    std::vector<Span> waiting;
    for (const Span& span : own.work.spans())
        if (span.index < 0) waiting.push_back({span.from, span.to, -1, Kind::idle});
    std::vector<Span> all;
    all.reserve(ops.size() + waiting.size());
    std::merge(ops.begin(), ops.end(), waiting.begin(), waiting.end(), std::back_inserter(all),
               [](const Span& a, const Span& b) { return a.from < b.from; });
    made.emplace();
    made->work = Lane(own.work.name(), std::move(all));
    // Of an action the kind that most of it is of.
    std::vector<Span> outline = own.outline.spans();
    for (Span& span : outline) {
        KindSums sums = made->work.within(span.from, span.to);
        if (span.index >= 0) sums[static_cast<std::size_t>(Kind::idle)] = 0;
        span.kind =
            span.index < 0
                ? Kind::idle
                : static_cast<Kind>(std::max_element(sums.begin(), sums.end()) - sums.begin());
    }
    made->outline = Lane(own.outline.name(), std::move(outline));
    return *made;
}

const std::vector<Lane>& DifferenceLanes::streams(std::size_t rank) const {
    std::optional<std::vector<Lane>>& made = streams_[rank];
    if (made) return *made;
    made.emplace();
    for (const Lane& lane : timeline_.streams(rank)) {
        std::vector<Span> spans = lane.spans();
        for (Span& span : spans)
            span.kind = counterparts_->difference_kind({rank, span.index});
        made->emplace_back(lane.name(), std::move(spans));
    }
    return *made;
}

}  // namespace orrery::gui
