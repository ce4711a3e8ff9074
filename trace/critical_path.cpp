#include "trace/critical_path.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "plan/check.hpp"

namespace orrery::trace {
namespace {

// When the host of one rank issued each op, and which op's end it had waited for: it issues op r
// when its launch of op r − 1 is over, r − queue + 1 ops have ended, it has read the counts that it
// needs, and where it waits for exchanges and op r − 1 is one, all before r have ended.
class HostClock {
  public:
    HostClock(const Trace& trace, const Track& track, const HostIssue& host)
        : events_(track.events.unpacked()) {
        by_end_.resize(events_.size());
        for (std::size_t i = 0; i < events_.size(); ++i)
            by_end_[i] = static_cast<std::uint32_t>(i);
        std::stable_sort(by_end_.begin(), by_end_.end(), [&](std::uint32_t a, std::uint32_t b) {
            return events_[a].end < events_[b].end;
        });
        const auto queue = static_cast<std::size_t>(host.queue);
        Picoseconds clock = host.graphs.step;
        std::array<std::int32_t, plan::kStreams> last;  // op before r on a stream, which ends last
        last.fill(kNothing);
        for (std::size_t r = 0; r < events_.size(); ++r) {
            std::int32_t gate = kNothing;
            if (r >= queue && end_of(r - queue) >= clock) {
                gate = first_with_end(r - queue);
                clock = end_of(r - queue);
            }
            const OpName& op = trace.op_of(track, r);
            const std::size_t number =
                trace.programs[static_cast<std::size_t>(track.program)].op[r];
            const auto wait_for = [&](std::int32_t before) {
                if (before == kNothing) return;
                const Picoseconds end = events_[static_cast<std::size_t>(before)].end;
                if (end < clock) return;
                gate = before;
                clock = end;
            };
            if (host.graphs.is_after_reading(number))
                for (const plan::Stream stream : kCountingStreams)
                    wait_for(last[static_cast<std::size_t>(stream)]);
            if (r > 0 && host.graphs.is_after_exchange(trace.op_of(track, r - 1).kind, op.kind))
                for (const std::int32_t before : last)
                    wait_for(before);
            last[static_cast<std::size_t>(op.stream)] = static_cast<std::int32_t>(r);
            gates_.push_back(gate);
            clock += host.graphs.of(number, host.launch.of(op.kind, op.phase));
            issued_.push_back(clock);
        }
    }

    Picoseconds issued(std::int32_t op) const { return issued_[static_cast<std::size_t>(op)]; }
    // The op whose end let the host go on, the last time before it issued `op`; kNothing: it has
    // issued without a pause since the beginning.
    std::int32_t gate(std::int32_t op) const {
        for (auto r = static_cast<std::size_t>(op);; --r)
            if (gates_[r] != kNothing || r == 0) return gates_[r];
    }

  private:
    Picoseconds end_of(std::size_t place) const { return events_[by_end_[place]].end; }
    std::int32_t first_with_end(std::size_t place) const {
        while (place > 0 && end_of(place - 1) == end_of(place))
            --place;
        return static_cast<std::int32_t>(by_end_[place]);
    }

    const std::vector<Event> events_;
    std::vector<std::uint32_t> by_end_;
    std::vector<std::int32_t> gates_;  // by op; kNothing: the op before it
    std::vector<Picoseconds> issued_;
};

class PathWalk {
  public:
    PathWalk(const Trace& trace, const HostIssue& host)
        : trace_(trace),
          host_(host),
          clocks_(trace.tracks.size()),
          communication_(trace.tracks.size()) {}

    std::vector<PathSegment> run() {
        find_end();
        std::size_t events = 0;
        for (const Track& track : trace_.tracks)
            events += track.events.size();
        while (now_ > trace_.step_start) {
            ORRERY_CHECK(events-- > 0, "the critical path goes in a circle");
            step_back();
        }
        std::reverse(path_.begin(), path_.end());
        return std::move(path_);
    }

  private:
    const Track& track() const { return trace_.tracks[static_cast<std::size_t>(track_)]; }
    Event event() const { return track().events[static_cast<std::size_t>(op_)]; }

    // The op that ends last within the step. Where a measured run went on after it, so does its
    // host.
    void find_end() {
        now_ = trace_.step_end;
        Picoseconds last = -1;
        for (std::size_t t = 0; t < trace_.tracks.size() && last < now_; ++t) {
            const Events& events = trace_.tracks[t].events;
            for (std::size_t i = events.size(); i-- > 0;) {
                const Picoseconds end = events[i].end;
                if (end > now_ || end <= last) continue;
                last = end;
                track_ = static_cast<std::int32_t>(t);
                op_ = static_cast<std::int32_t>(i);
            }
        }
        ORRERY_CHECK(last >= 0, "no op ends within the step");
        charge(kHost, last);
    }

    // `op` of the current track, or its host, has run since `from`.
    void charge(std::int32_t op, Picoseconds from) {
        const Picoseconds begin = std::max(from, trace_.step_start);
        if (begin < now_) path_.push_back({track_, op, begin, now_});
        now_ = begin;
    }

    // The current op ends now: charges its work, then goes to what it waited for last.
    void step_back() {
        ORRERY_CHECK(event().end == now_, "the critical path has a gap");
        charge(op_, event().start);
        if (now_ <= trace_.step_start) return;
        if (event().start > event().ready && event().late_track >= 0) go_to_late_member();
        // What was measured came so late, and nothing on the device kept it.
        charge(kHost, event().ready);
        if (now_ <= trace_.step_start) return;
        if (event().blocker == kHost) return go_past_host();
        ORRERY_CHECK(event().blocker >= 0, "an op waited for nothing and yet did not start");
        op_ = event().blocker;
    }

    // A transfer or collective began when its last member was there: to that member's op.
    void go_to_late_member() {
        const Event mine = event();
        const OpName& op = trace_.op_of(track(), static_cast<std::size_t>(op_));
        track_ = mine.late_track;
        const auto& ops = communication(track_)[stream_there(op)];
        auto at = std::lower_bound(ops.begin(), ops.end(), now_, [&](std::int32_t i, auto time) {
            return track().events[static_cast<std::size_t>(i)].ready < time;
        });
        const auto is_of_group = [&](std::int32_t i) {
            return trace_.op_of(track(), static_cast<std::size_t>(i)).group == op.group;
        };
        while (at != ops.end() && !is_of_group(*at))
            ++at;
        if (at == ops.end() || track().events[static_cast<std::size_t>(*at)].ready != now_) {
            // It was ready before, and came late: the last of those.
            do
                ORRERY_CHECK(at != ops.begin(), "the last member of a group has no such op");
            while (!is_of_group(*--at) ||
                   track().events[static_cast<std::size_t>(*at)].ready > now_);
        }
        op_ = *at;
        ORRERY_CHECK(event().ready <= now_ && event().start >= now_,
                     "the last member of a group was not there");
    }

    // The stream of the late member's side. Where a rank has a stream for each of its neighbours,
    // the one after counts it as the one before.
    std::size_t stream_there(const OpName& op) {
        constexpr auto kAfter = static_cast<std::size_t>(plan::Stream::pipeline_comm);
        constexpr auto kBefore = static_cast<std::size_t>(plan::Stream::pipeline_before_comm);
        const auto own = static_cast<std::size_t>(op.stream);
        if (op.kind != plan::OpKind::exchange) return own;
        if (own == kBefore) return kAfter;
        return communication(track_)[kBefore].empty() ? own : kBefore;
    }

    void go_past_host() {
        std::optional<HostClock>& clock = clocks_[static_cast<std::size_t>(track_)];
        if (!clock) clock.emplace(trace_, track(), host_);
        ORRERY_CHECK(clock->issued(op_) == now_, "the host issued at another time");
        const std::int32_t gate = clock->gate(op_);
        if (gate >= 0) op_ = gate;
        charge(kHost, gate >= 0 ? event().end : trace_.step_start);
    }

    // Communication of a track by stream, in issue order, and so in the order of `ready`.
    using ByStream = std::array<std::vector<std::int32_t>, plan::kStreams>;
    const ByStream& communication(std::int32_t track) {
        std::optional<ByStream>& ops = communication_[static_cast<std::size_t>(track)];
        if (ops) return *ops;
        ops.emplace();
        const Track& of = trace_.tracks[static_cast<std::size_t>(track)];
        for (std::size_t i = 0; i < of.events.size(); ++i) {
            const OpName& op = trace_.op_of(of, i);
            if (plan::is_communication(op.kind))
                (*ops)[static_cast<std::size_t>(op.stream)].push_back(static_cast<std::int32_t>(i));
        }
        return *ops;
    }

    const Trace& trace_;
    const HostIssue host_;
    std::vector<std::optional<HostClock>> clocks_;  // by track, made when needed
    std::vector<std::optional<ByStream>> communication_;
    std::vector<PathSegment> path_;  // from the end of the step towards its start
    std::int32_t track_ = 0;
    std::int32_t op_ = 0;
    Picoseconds now_ = 0;
};

}  // namespace

std::vector<PathSegment> critical_path(const Trace& trace, const HostIssue& host) {
    ORRERY_CHECK(trace.origin == Origin::predicted, "a measured trace has no exact path");
    return PathWalk(trace, host).run();
}

std::vector<PathPart> parts_of(const Trace& trace, const std::vector<PathSegment>& path) {
    std::vector<PathPart> parts;
    for (const PathSegment& segment : path) {
        PathPart part{segment.track, Account::launch};
        if (segment.op >= 0) {
            const OpName& op = trace.op_of(trace.tracks[static_cast<std::size_t>(segment.track)],
                                           static_cast<std::size_t>(segment.op));
            part = {segment.track, work_account(op), op.kind, op.group};
        }
        const auto same = std::find_if(parts.begin(), parts.end(), [&](const PathPart& other) {
            return other.track == part.track && other.account == part.account &&
                   other.kind == part.kind && other.group == part.group;
        });
        PathPart& sum = same == parts.end() ? parts.emplace_back(part) : *same;
        sum.time += segment.to - segment.from;
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const PathPart& a, const PathPart& b) { return a.time > b.time; });
    return parts;
}

}  // namespace orrery::trace
