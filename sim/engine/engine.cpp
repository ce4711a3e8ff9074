#include "sim/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/ir/check.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/op_index.hpp"

namespace orrery::sim {
namespace {

using plan::kStreams;
using trace::Event;

constexpr std::size_t kCompute = static_cast<std::size_t>(plan::Stream::compute);

enum class Kind : std::uint8_t { start, end, transfer_end };

struct Happening {
    Kind kind;
    std::uint8_t stream = 0;
    TrackId track = 0;
    std::uint32_t op = 0;
    std::uint32_t generation = 0;  // of a compute op whose end has been moved
};

struct StreamState {
    std::uint32_t position = 0;  // ops of this stream that have ended
    bool busy = false;           // its head has started, or has a time to start at
};

// The exchange a rank is in, if any.
struct Exchanging {
    const plan::Step* step = nullptr;
    std::uint32_t op = 0;
    std::uint32_t outstanding = 0;
    std::uint64_t begun = 0;  // bit per transfer
};

struct TrackState {
    std::array<StreamState, kStreams> streams;
    std::uint32_t issued = 0;  // by the host
    std::uint32_t ended = 0;
    Picoseconds host_clock = 0;
    Exchanging exchanging;
    // The compute op in progress, for slow-down under communication.
    std::uint32_t communicating = 0;
    std::int64_t work_left = 0;  // in units of which one picosecond does pace() many
    Picoseconds work_since = 0;
    std::uint32_t generation = 0;
};

struct GroupState {
    std::uint32_t arrived = 0;
    Picoseconds duration = 0;  // of the member for which it takes longest
    std::uint32_t first_op_number = 0;
};

class Engine {
  public:
    explicit Engine(const EngineInput& input)
        : in_(input), index_(input), tracks_(input.tracks.size()), groups_(input.groups.size()) {
        result_.events.resize(tracks_.size());
        for (std::size_t t = 0; t < tracks_.size(); ++t)
            result_.events[t].resize(linked(static_cast<TrackId>(t)).size());
    }

    EngineResult run() {
        for (std::size_t t = 0; t < tracks_.size(); ++t) {
            const auto track = static_cast<TrackId>(t);
            issue(track, 0);
            for (std::size_t s = 0; s < kStreams; ++s)
                try_head(track, s, 0);
        }
        while (!queue_.empty()) {
            const auto entry = queue_.pop();
            check_clock(entry.time);
            handle(entry.time, entry.payload);
        }
        report_stuck();
        return std::move(result_);
    }

  private:
    const plan::LinkedProgram& linked(TrackId track) const { return index_.linked(track); }
    const EngineTrack& spec(TrackId track) const { return index_.spec(track); }
    const std::vector<std::uint32_t>& stream_ops(TrackId track, std::size_t stream) const {
        return index_.stream_ops(track, stream);
    }
    TrackState& state(TrackId track) { return tracks_[static_cast<std::size_t>(track)]; }
    Event& event(TrackId track, std::uint32_t op) {
        return result_.events[static_cast<std::size_t>(track)][op];
    }
    const OpTime* time_of(TrackId track, std::uint32_t op) const {
        const std::vector<OpTime>* times = spec(track).times;
        return times == nullptr ? nullptr : &(*times)[op % times->size()];
    }
    Picoseconds late(TrackId track, std::uint32_t op) const {
        const OpTime* time = time_of(track, op);
        return time == nullptr ? 0 : time->late;
    }
    Picoseconds duration(TrackId track, std::uint32_t op) const {
        const OpTime* time = time_of(track, op);
        return time == nullptr ? (*spec(track).durations)[linked(track).op[op]] : time->duration;
    }

    // What follows adds one op's duration, which is far less than what is left of 64 bits.
    static void check_clock(Picoseconds now) {
        if (now > kLongestStep)
            throw ProfileError(fmt::format(
                "the step takes more than {} days, and traces hold no more; look at the bandwidths "
                "and "
                "latencies of the cluster and its profile, and at launch_us and the sizes of the "
                "scenario",
                static_cast<int>(to_seconds(kLongestStep) / 86400)));
    }

    // The host issues in order, one op per launch time, as far ahead as its queue allows. Until the
    // op is ready, Event::ready holds when it was issued.
    void issue(TrackId track, Picoseconds now) {
        TrackState& t = state(track);
        const auto size = static_cast<std::uint32_t>(linked(track).size());
        const std::uint64_t limit =
            std::min<std::uint64_t>(size, static_cast<std::uint64_t>(t.ended) +
                                              static_cast<std::uint64_t>(in_.launch_queue));
        if (t.issued >= limit) return;
        t.host_clock = std::max(t.host_clock, now);
        for (; t.issued < limit; ++t.issued) {
            t.host_clock += in_.launch;
            check_clock(t.host_clock);
            event(track, t.issued).ready = t.host_clock;
        }
    }

    // Whether the op's waits on other streams are over.
    bool released(TrackId track, std::uint32_t op) {
        const plan::LinkedProgram& program = linked(track);
        const TrackState& t = state(track);
        for (std::uint32_t w = program.first_wait[op]; w < program.first_wait[op + 1]; ++w) {
            const plan::Wait& wait = program.waits[w];
            if (t.streams[static_cast<std::size_t>(wait.stream)].position < wait.count)
                return false;
        }
        return true;
    }

    // Of what the head of a stream follows, on its stream and on others, the op that ended last;
    // the first of several, so that ties do not depend on the order of events.
    std::int32_t last_before_head(TrackId track, std::size_t stream) {
        const plan::LinkedProgram& program = linked(track);
        const auto& ops = stream_ops(track, stream);
        const std::uint32_t position = state(track).streams[stream].position;
        std::int32_t last = trace::kNothing;
        auto consider = [&](std::uint32_t op) {
            if (last < 0 ||
                event(track, op).end > event(track, static_cast<std::uint32_t>(last)).end)
                last = static_cast<std::int32_t>(op);
        };
        if (position > 0) consider(ops[position - 1]);
        const std::uint32_t head = ops[position];
        for (std::uint32_t w = program.first_wait[head]; w < program.first_wait[head + 1]; ++w) {
            const plan::Wait& wait = program.waits[w];
            consider(stream_ops(track, static_cast<std::size_t>(wait.stream))[wait.count - 1]);
        }
        return last;
    }

    // Starts the head of a stream, or makes an appointment with the host, if nothing else holds it.
    void try_head(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        StreamState& s = t.streams[stream];
        const auto& ops = stream_ops(track, stream);
        if (s.busy || s.position >= ops.size()) return;
        const std::uint32_t op = ops[s.position];
        if (op >= t.issued || !released(track, op)) return;
        s.busy = true;
        Event& e = event(track, op);
        if (e.ready > now) {
            e.blocker = trace::kHost;
            queue_.push(e.ready, {Kind::start, static_cast<std::uint8_t>(stream), track, op, 0});
            return;
        }
        const std::int32_t last = last_before_head(track, stream);
        const Picoseconds free = last < 0 ? 0 : event(track, static_cast<std::uint32_t>(last)).end;
        e.blocker = e.ready > free ? trace::kHost : last;
        e.ready = now;
        const Picoseconds wait = late(track, op);
        if (wait == 0) return begin(track, op, now);
        queue_.push(now + wait, {Kind::start, static_cast<std::uint8_t>(stream), track, op, 0});
    }

    void begin(TrackId track, std::uint32_t op, Picoseconds now) {
        const OpFacts& f = index_.facts(track, op);
        const bool exchange = f.kind == plan::OpKind::exchange;
        if (exchange && !in_.peers_never_wait) return begin_exchange(track, op, now);
        const Picoseconds takes = exchange ? longest_transfer(track, op) : duration(track, op);
        if (f.communication) {
            const std::int32_t group =
                exchange ? -1 : spec(track).groups[static_cast<std::size_t>(f.group)];
            if (group >= 0) return arrive(group, track, op, takes, now);
            set_communicating(track, +1, now);
        }
        Event& e = event(track, op);
        e.start = now;
        e.end = now + takes;
        TrackState& t = state(track);
        if (f.stream == kCompute && in_.compute_slowdown_permille > 0) {
            t.work_left = takes * pace(false);
            t.work_since = now;
            e.end = end_of_work(t, t.communicating > 0);
        }
        queue_.push(e.end, {Kind::end, f.stream, track, op, t.generation});
    }

    // Work is counted exactly, so that a pace which changes and changes back at one instant leaves
    // no trace, whatever the order.
    std::int64_t pace(bool communicating) const {
        return communicating ? 1000 : 1000 + in_.compute_slowdown_permille;
    }
    Picoseconds end_of_work(const TrackState& t, bool communicating) const {
        const std::int64_t rate = pace(communicating);
        return t.work_since + (t.work_left + rate - 1) / rate;
    }

    // Communication of a rank begins or ends: a compute op in progress changes its pace.
    void set_communicating(TrackId track, int change, Picoseconds now) {
        if (in_.compute_slowdown_permille == 0) return;
        TrackState& t = state(track);
        const bool before = t.communicating > 0;
        t.communicating = static_cast<std::uint32_t>(static_cast<int>(t.communicating) + change);
        const bool after = t.communicating > 0;
        const StreamState& compute = t.streams[kCompute];
        if (before == after || !compute.busy) return;
        const std::uint32_t op = stream_ops(track, kCompute)[compute.position];
        Event& e = event(track, op);
        if (e.end == 0 || e.start > now) return;  // has an appointment, has not begun
        t.work_left = std::max<std::int64_t>(0, t.work_left - (now - t.work_since) * pace(before));
        t.work_since = now;
        e.end = end_of_work(t, after);
        queue_.push(e.end,
                    {Kind::end, static_cast<std::uint8_t>(kCompute), track, op, ++t.generation});
    }

    void arrive(std::int32_t group, TrackId track, std::uint32_t op, Picoseconds takes,
                Picoseconds now) {
        GroupState& g = groups_[static_cast<std::size_t>(group)];
        const std::uint32_t number = linked(track).op[op];
        if (g.arrived == 0) {
            g.first_op_number = number;
            g.duration = 0;
        }
        const OpFacts &mine = index_.facts(number), &first = index_.facts(g.first_op_number);
        ORRERY_CHECK(mine.kind == first.kind && mine.elements == first.elements,
                     "members of a group disagree on their collective");
        g.duration = std::max(g.duration, takes);
        const auto& members = in_.groups[static_cast<std::size_t>(group)];
        if (++g.arrived < members.size()) return;
        g.arrived = 0;
        const auto head_of = [&](TrackId member) {
            const std::size_t head = state(member).streams[mine.stream].position;
            return stream_ops(member, mine.stream)[head];
        };
        const auto came = [&](TrackId member) {
            return event(member, head_of(member)).ready + late(member, head_of(member));
        };
        // Of several that came last together the first is named: the same program in a folded run
        // and in an unfolded one.
        const TrackId last = *std::find_if(members.begin(), members.end(),
                                           [&](TrackId member) { return came(member) == now; });
        for (TrackId member : members) {
            const std::uint32_t head = head_of(member);
            Event& e = event(member, head);
            const OpTime* own = time_of(member, head);
            e.start = now;
            e.end = now + (own == nullptr ? g.duration : own->duration);
            e.late_track = came(member) == now ? -1 : last;
            set_communicating(member, +1, now);
            queue_.push(e.end, {Kind::end, mine.stream, member, head, state(member).generation});
        }
    }

    const plan::Step& step_of(TrackId track, std::uint32_t op) const {
        const plan::Program& program =
            in_.plan->programs[static_cast<std::size_t>(spec(track).program)];
        return program.steps[linked(track).step[op]];
    }

    Picoseconds longest_transfer(TrackId track, std::uint32_t op) const {
        Picoseconds longest = 0;
        for (const plan::Transfer& transfer : step_of(track, op).transfers)
            longest = std::max(
                longest, spec(track).transfer_to_peer[static_cast<std::size_t>(transfer.peer)]);
        return longest;
    }

    void begin_exchange(TrackId track, std::uint32_t op, Picoseconds now) {
        Exchanging& mine = state(track).exchanging;
        mine = {&step_of(track, op), op, 0, 0};
        mine.outstanding = static_cast<std::uint32_t>(mine.step->transfers.size());
        for (std::size_t i = 0; i < mine.step->transfers.size(); ++i)
            match(track, i, now);
    }

    // A transfer begins when the peer's exchange holds its other side.
    void match(TrackId track, std::size_t index, Picoseconds now) {
        Exchanging& mine = state(track).exchanging;
        const plan::Transfer& transfer = mine.step->transfers[index];
        const TrackId peer = spec(track).pipeline_peers[static_cast<std::size_t>(transfer.peer)];
        Exchanging& theirs = state(peer).exchanging;
        if (theirs.step == nullptr) return;
        for (std::size_t i = 0; i < theirs.step->transfers.size(); ++i) {
            if (((theirs.begun >> i) & 1U) != 0 ||
                !plan::same_message(transfer, spec(track).program, theirs.step->transfers[i]))
                continue;
            mine.begun |= std::uint64_t{1} << index;
            theirs.begun |= std::uint64_t{1} << i;
            begin_transfer(track, peer, transfer, now);
            return;
        }
    }

    void begin_transfer(TrackId track, TrackId peer, const plan::Transfer& transfer,
                        Picoseconds now) {
        const Picoseconds duration =
            spec(track).transfer_to_peer[static_cast<std::size_t>(transfer.peer)];
        for (TrackId side : {track, peer}) {
            const Exchanging& x = state(side).exchanging;
            Event& e = event(side, x.op);
            e.start = now;
            e.late_track = side == peer && e.ready < now ? track : -1;
            set_communicating(side, +1, now);
            const OpTime* own = time_of(side, x.op);
            queue_.push(now + (own == nullptr ? duration : own->duration),
                        {Kind::transfer_end, 0, side, 0, 0});
        }
    }

    void end_transfer(TrackId track, Picoseconds now) {
        set_communicating(track, -1, now);
        Exchanging& x = state(track).exchanging;
        if (--x.outstanding > 0) return;
        const std::uint32_t op = x.op;
        x.step = nullptr;
        event(track, op).end = now;
        finish(track, static_cast<std::size_t>(plan::Stream::pipeline_comm), now);
    }

    // An op has ended: the host may go on, and heads that waited may start.
    void finish(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        ++t.ended;
        ++result_.processed;
        StreamState& s = t.streams[stream];
        ++s.position;
        s.busy = false;
        issue(track, now);
        try_head(track, stream, now);
        for (std::size_t other = 0; other < kStreams; ++other)
            if (other != stream) try_head(track, other, now);
    }

    void end_op(Picoseconds now, const Happening& what) {
        TrackState& t = state(what.track);
        if (what.stream == kCompute) {
            if (what.generation != t.generation) return;  // its end has been moved
            ++t.generation;
        }
        if (index_.facts(what.track, what.op).communication) set_communicating(what.track, -1, now);
        finish(what.track, what.stream, now);
    }

    void handle(Picoseconds now, const Happening& what) {
        switch (what.kind) {
            case Kind::start:
                return begin(what.track, what.op, now);
            case Kind::end:
                return end_op(now, what);
            case Kind::transfer_end:
                return end_transfer(what.track, now);
        }
    }

    void report_stuck();

    const EngineInput& in_;
    OpIndex index_;
    std::vector<TrackState> tracks_;
    std::vector<GroupState> groups_;
    EventQueue<Happening> queue_;
    EngineResult result_;
};

// Nothing is pending: whatever has not ended never will.
void Engine::report_stuck() {
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
        const auto track = static_cast<TrackId>(i);
        const TrackState& t = tracks_[i];
        for (std::size_t s = 0; s < kStreams; ++s) {
            const auto& ops = stream_ops(track, s);
            if (t.streams[s].position >= ops.size()) continue;
            const std::uint32_t op = ops[t.streams[s].position];
            std::string why;
            if (t.streams[s].busy)
                why = "its peers";
            else if (op >= t.issued)
                why = "the host";
            else
                for (std::uint32_t w = linked(track).first_wait[op];
                     w < linked(track).first_wait[op + 1]; ++w) {
                    const plan::Wait& wait = linked(track).waits[w];
                    const auto on = static_cast<std::size_t>(wait.stream);
                    if (t.streams[on].position < wait.count)
                        why = "op " + std::to_string(stream_ops(track, on)[wait.count - 1]) +
                              " on " + std::string(plan::name(wait.stream));
                }
            result_.stuck.push_back({track, op, why});
        }
    }
}

}  // namespace

EngineResult run_engine(const EngineInput& input) {
    return Engine(input).run();
}

}  // namespace orrery::sim
