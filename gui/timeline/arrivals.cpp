#include "gui/timeline/arrivals.hpp"

#include <algorithm>
#include <tuple>

namespace orrery::gui {
namespace {

trace::Event event_at(const Timeline& timeline, const OpPlace& place) {
    return timeline.track_of(place.rank).events[static_cast<std::size_t>(place.event)];
}

bool is_transfer(const Timeline& timeline, const OpPlace& place) {
    const trace::Track& track = timeline.track_of(place.rank);
    return timeline.trace().op_of(track, static_cast<std::size_t>(place.event)).kind ==
           plan::OpKind::exchange;
}

class Around {
  public:
    Around(const Timeline& timeline, const OpPlace& op) : timeline_(timeline), rank_(op.rank) {
        std::tie(first_, last_) = timeline.ops_of_action(op);
    }

    std::vector<Arrival> run() {
        for (std::int32_t event = first_; event < last_; ++event) {
            add({rank_, event});
            const std::int32_t blocker = event_at(timeline_, {rank_, event}).blocker;
            if (blocker >= 0 && !is_of_action(blocker)) add({rank_, blocker});
        }
        add_sent();
        return std::move(arrivals_);
    }

  private:
    bool is_of_action(std::int32_t event) const { return event >= first_ && event < last_; }

    void add(const OpPlace& to) {
        if (!is_transfer(timeline_, to)) return;
        const std::optional<Arrival> arrival = arrival_of(timeline_, to);
        if (!arrival) return;
        if (std::find(arrivals_.begin(), arrivals_.end(), *arrival) == arrivals_.end())
            arrivals_.push_back(*arrival);
    }

    // Whether an own op is of the action, or waited for it.
    bool follows_action(std::int32_t event) const {
        return is_of_action(event) || is_of_action(event_at(timeline_, {rank_, event}).blocker);
    }

    // Those of others that waited for this row and began when a transfer of the action did.
    void add_sent() {
        const auto own = static_cast<std::int32_t>(timeline_.ranks()[rank_].track);
        std::vector<Picoseconds> begins;
        const auto events = static_cast<std::int32_t>(timeline_.track_of(rank_).events.size());
        for (std::int32_t event = 0; event < events; ++event)
            if (follows_action(event) && is_transfer(timeline_, {rank_, event}))
                begins.push_back(event_at(timeline_, {rank_, event}).start);
        if (begins.empty()) return;
        for (std::size_t rank = 0; rank < timeline_.ranks().size(); ++rank) {
            const trace::Events& others = timeline_.track_of(rank).events;
            for (std::size_t i = 0; i < others.size(); ++i) {
                const trace::Event other = others[i];
                if (other.late_track == own &&
                    std::find(begins.begin(), begins.end(), other.start) != begins.end())
                    add_if_sent({rank, static_cast<std::int32_t>(i)});
            }
        }
    }

    void add_if_sent(const OpPlace& to) {
        if (!is_transfer(timeline_, to)) return;
        const std::optional<Arrival> arrival = arrival_of(timeline_, to);
        if (arrival && follows_action(arrival->from.event)) arrivals_.push_back(*arrival);
    }

    const Timeline& timeline_;
    std::size_t rank_;
    std::int32_t first_ = 0, last_ = 0;
    std::vector<Arrival> arrivals_;
};

}  // namespace

std::optional<Arrival> arrival_of(const Timeline& timeline, const OpPlace& op) {
    const trace::Event mine = event_at(timeline, op);
    if (mine.late_track < 0 || mine.start <= mine.ready) return std::nullopt;
    const auto late = timeline.rank_of_track(static_cast<std::size_t>(mine.late_track));
    if (!late || *late == op.rank) return std::nullopt;
    const trace::Trace& trace = timeline.trace();
    const trace::OpName& name =
        trace.op_of(timeline.track_of(op.rank), static_cast<std::size_t>(op.event));
    const trace::Track& track = timeline.track_of(*late);
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const trace::Event other = track.events[i];
        // Begun together, when that one was ready.
        if (other.ready != mine.start || other.start != mine.start) continue;
        const trace::OpName& there = trace.op_of(track, i);
        if (there.kind == name.kind && there.group == name.group)
            return Arrival{{*late, static_cast<std::int32_t>(i)}, op, mine.start, mine.end};
    }
    return std::nullopt;
}

std::vector<Arrival> arrivals_around(const Timeline& timeline, const OpPlace& op) {
    if (timeline.recorded() != nullptr) {
        // From the call to what it launches.
        const std::optional<OpPlace> launch = timeline.blocker_of(op);
        const std::optional<OpPlace> launched = timeline.waiter_of(op);
        if (!launch && !launched) return {};
        const OpPlace from = launch ? *launch : op;
        const OpPlace to = launch ? op : *launched;
        return {{from, to, timeline.times_of(from).from, timeline.times_of(to).from}};
    }
    return Around(timeline, op).run();
}

}  // namespace orrery::gui
