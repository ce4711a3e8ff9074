#include "sim/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "plan/check.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/op_index.hpp"
#include "sim/engine/track_state.hpp"

namespace orrery::sim {
namespace {

using plan::kStreams;
using trace::Event;

constexpr std::size_t kReadAhead = 8;

std::size_t place_of(std::size_t transfer_stream) {
    return transfer_stream == static_cast<std::size_t>(plan::Stream::pipeline_comm) ? 0 : 1;
}

class Engine {
  public:
    // `index`: of the same input.
    Engine(const EngineInput& input, const std::vector<EngineTrack>& tracks, const OpIndex& index,
           EngineListener& listener)
        : in_(input),
          specs_(tracks),
          listener_(&listener),
          index_(index),
          tracks_(tracks.size()),
          groups_(input.groups.size()),
          flows_(input.node_network_kBps, tracks.size()) {
        for (std::size_t t = 0; t < tracks_.size(); ++t) {
            const EngineTrack& track = tracks[t];
            tracks_[t].program = &index_.program(track.program);
            tracks_[t].durations = track.durations->data();
            tracks_[t].times = track.times;
            tracks_[t].factors = track.factors;
            tracks_[t].uneven = track.uneven;
            tracks_[t].slowdown =
                track.compute_slowdown_permille.value_or(input.compute_slowdown_permille);
            ops_ += tracks_[t].program->linked->size();
        }
        lay_out_rings();
    }

    EngineRun run() {
        begin();
        for (Picoseconds now = 0;;) {
            if (queue_.moment_is_over() && flows_.unsettled()) settle_flows(now);
            if (queue_.empty()) break;
            now = handle_next();
        }
        return finish();
    }

    // --- in turns with others

    // A copy of another, whose rings it still has.
    void lay_out_rings_as(const Engine& other) {
        for (TrackState& t : tracks_)
            for (StreamState& s : t.streams)
                s.issued_at = rings_.data() + (s.issued_at - other.rings_.data());
    }
    void tell(EngineListener& listener) { listener_ = &listener; }
    NetworkFlows& flows() { return flows_; }
    // Ends that were moved may be left in the queue, after the last op.
    bool over() const { return queue_.empty() || result_.processed == ops_; }
    std::uint64_t processed() const { return result_.processed; }
    Picoseconds next_time() const { return queue_.next_time(); }
    void run_moment() {
        const Picoseconds now = next_time();
        while (!queue_.empty() && next_time() == now)
            handle_next();
    }
    void take_ends(Picoseconds now) { push_ends(flows_.grant(now)); }

    // What can start at 0.
    void begin() {
        for (std::size_t t = 0; t < tracks_.size(); ++t) {
            const auto track = static_cast<TrackId>(t);
            for (std::size_t s = 0; s < kStreams; ++s)
                take_head(tracks_[t], s);
            issue(tracks_[t], 0);
            for (std::size_t s = 0; s < kStreams; ++s)
                try_head(track, s, 0);
        }
    }
    EngineRun finish() {
        report_stuck();
        return std::move(result_);
    }

  private:
    const EngineTrack& spec(TrackId track) const { return specs_[static_cast<std::size_t>(track)]; }
    TrackState& state(TrackId track) { return tracks_[static_cast<std::size_t>(track)]; }
    static const OpTime* time_of(const TrackState& t, std::uint32_t op) {
        return t.times == nullptr ? nullptr : &(*t.times)[op % t.times->size()];
    }
    static Picoseconds late(const TrackState& t, std::uint32_t op) {
        const OpTime* time = time_of(t, op);
        return time == nullptr ? 0 : time->late;
    }
    static Picoseconds duration(const TrackState& t, const StreamOp& head) {
        const OpTime* time = time_of(t, head.op);
        const Picoseconds priced = time == nullptr ? t.durations[head.number] : time->duration;
        const Picoseconds takes =
            t.uneven != nullptr && head.kernel ? t.uneven->of(head.op, priced) : priced;
        return t.factors == nullptr ? takes : multiplied(takes, t, head.op);
    }

    static Picoseconds multiplied(Picoseconds takes, const TrackState& t, std::uint32_t op) {
        return static_cast<Picoseconds>(
            static_cast<double>(takes) * (*t.factors)[op % t.factors->size()] + 0.5);
    }

    // The host is never further ahead than its queue is long, or than there are ops.
    void lay_out_rings() {
        const auto ring_of = [&](const TrackState& t, std::size_t s) {
            const std::uint64_t ops = t.program->stream_ops[s].size();
            return ops == 0
                       ? 0
                       : std::bit_ceil(std::min(ops, static_cast<std::uint64_t>(in_.launch_queue)));
        };
        std::uint64_t size = 0;
        for (const TrackState& t : tracks_)
            for (std::size_t s = 0; s < kStreams; ++s)
                size += ring_of(t, s);
        rings_.resize(size);
        Picoseconds* ring = rings_.data();
        for (TrackState& t : tracks_)
            for (std::size_t s = 0; s < kStreams; ++s) {
                t.streams[s].issued_at = ring;
                t.streams[s].mask = static_cast<std::uint32_t>(ring_of(t, s) - 1);
                ring += ring_of(t, s);
            }
    }

    // Another thread's wish is looked for now and then: each event takes some tens of nanoseconds.
    void check_stop() {
        constexpr std::uint32_t kEventsBetweenLooks = 4096;
        if (++events_since_look_ < kEventsBetweenLooks) return;
        events_since_look_ = 0;
        if (in_.stop != nullptr && in_.stop->load(std::memory_order_relaxed)) throw Stopped();
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

    // The host issues in order, one op per launch time, as far ahead as its queue allows. Returns a
    // bit per stream whose head it issued.
    std::uint32_t issue(TrackState& t, Picoseconds now) {
        const std::vector<std::uint8_t>& stream_of = t.program->stream_of;
        const std::uint64_t limit = std::min<std::uint64_t>(
            stream_of.size(),
            static_cast<std::uint64_t>(t.ended) + static_cast<std::uint64_t>(in_.launch_queue));
        std::uint32_t heads = 0;
        if (t.issued >= limit) return heads;
        t.host_clock = std::max(t.host_clock, now);
        if (t.issued == 0) t.host_clock += in_.graphs.step;
        const std::vector<std::uint32_t>& after_reading = t.program->after_reading;
        const std::vector<std::uint32_t>& after_exchange = t.program->after_exchange;
        for (; t.issued < limit; ++t.issued) {
            if (t.readings < after_reading.size() && after_reading[t.readings] == t.issued) {
                if (!has_counted(t)) break;
                ++t.readings;
            }
            if (t.exchanges < after_exchange.size() && after_exchange[t.exchanges] == t.issued) {
                if (t.ended < t.issued) break;
                ++t.exchanges;
            }
            t.host_clock += index_.launch(t.program->linked->op[t.issued]);
            check_clock(t.host_clock);
            const std::uint8_t stream = stream_of[t.issued];
            StreamState& s = t.streams[stream];
            s.issued_at[s.issued & s.mask] = t.host_clock;
            if (s.issued == s.position) heads |= 1U << stream;
            ++s.issued;
        }
        return heads;
    }

    // Whether the device has done what the host issued to the streams on which it counts.
    static bool has_counted(const TrackState& t) {
        return std::ranges::all_of(trace::kCountingStreams, [&](plan::Stream stream) {
            const StreamState& s = t.streams[static_cast<std::size_t>(stream)];
            return s.position == s.issued;
        });
    }

    // The next op of a stream becomes its head. Of what it follows on other streams, whatever has
    // ended already has not ended after the op before it.
    static void take_head(TrackState& t, std::size_t stream) {
        StreamState& s = t.streams[stream];
        const std::vector<StreamOp>& ops = t.program->stream_ops[stream];
        s.next = s.position < ops.size() ? &ops[s.position] : nullptr;
        s.head = {};
        if (s.next == nullptr) return;
        const std::vector<plan::Wait>& all_waits = t.program->linked->waits;
        const plan::Wait* waits = all_waits.data() + s.next->first_wait;
        // Programs are read once, at a few places at a time: memory is asked for what comes next.
        __builtin_prefetch(&ops[std::min<std::size_t>(s.position + kReadAhead, ops.size() - 1)]);
        __builtin_prefetch(all_waits.data() + std::min<std::size_t>(s.next->first_wait + kReadAhead,
                                                                    all_waits.size()));
        for (std::uint32_t w = 0; w < s.next->waits; ++w) {
            const auto on = static_cast<std::size_t>(waits[w].stream);
            if (t.streams[on].position >= waits[w].count) continue;
            t.awaited[on][stream] = waits[w].count;
            t.awaiting[on] |= 1U << stream;
            ++s.waits;
        }
    }

    // Op `op` has ended as the last that these heads wait for on its stream. Of several that ended
    // together the one on the first stream counts, so that ties do not depend on the order of
    // events. Returns a bit per stream whose head waits no more.
    static std::uint32_t release(TrackState& t, std::size_t stream, std::uint32_t op,
                                 Picoseconds now) {
        const std::uint32_t position = t.streams[stream].position;
        std::uint32_t heads = 0;
        for (std::uint32_t left = t.awaiting[stream]; left != 0; left &= left - 1) {
            const auto other = static_cast<std::size_t>(std::countr_zero(left));
            if (t.awaited[stream][other] != position) continue;
            t.awaiting[stream] &= ~(1U << other);
            StreamState& s = t.streams[other];
            const bool first = s.last == trace::kNothing || now > s.last_end ||
                               (s.last_on != kOwnStream && stream < s.last_on);
            if (first) {
                s.last = static_cast<std::int32_t>(op);
                s.last_end = now;
                s.last_on = static_cast<std::uint8_t>(stream);
            }
            if (--s.waits == 0) heads |= 1U << other;
        }
        return heads;
    }

    // Starts the head of a stream, or makes an appointment with the host, if nothing else holds it.
    void try_head(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        StreamState& s = t.streams[stream];
        if (s.busy || s.next == nullptr || s.waits > 0 || s.position >= s.issued) return;
        s.busy = true;
        const Picoseconds issued = s.issued_at[s.position & s.mask];
        if (issued > now) {
            s.head.ready = issued;
            s.head.blocker = trace::kHost;
            queue_.push(issued, {Kind::start, stream, track});
            return;
        }
        const Picoseconds free = s.last < 0 ? 0 : s.last_end;
        s.head.blocker = issued > free ? trace::kHost : s.last;
        s.head.ready = now;
        const Picoseconds wait = late(t, s.next->op);
        if (wait == 0) return begin(track, stream, now);
        queue_.push(now + wait, {Kind::start, stream, track});
    }

    void begin(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        StreamState& s = t.streams[stream];
        const StreamOp& head = *s.next;
        if (head.exchange && !in_.peers_never_wait) return begin_exchange(track, stream, now);
        const Picoseconds takes =
            head.exchange ? longest_transfer(track, step_of(t, head)) : duration(t, head);
        if (head.communication) {
            const std::int32_t group =
                head.exchange ? -1 : spec(track).groups[static_cast<std::size_t>(head.group)];
            if (group >= 0) return arrive(group, track, stream, takes, now);
            set_communicating(track, +1, now);
            const NetworkUse use = head.exchange ? NetworkUse{} : use_of(track, head.number);
            if (flows_.shares(use)) {
                s.head.start = now;
                members_.assign(1, flow_member(track, stream, use));
                return flows_.begin(members_, false, takes, now);
            }
        } else if (head.beside) {
            set_communicating(track, +1, now);
        }
        s.head.start = now;
        s.head.end = now + takes;
        if (stream == kCompute && t.slowdown > 0) {
            t.work_left = takes * pace(t, false);
            t.work_since = now;
            s.head.end = end_of_work(t, t.communicating > 0);
        }
        queue_.push(s.head.end, {Kind::end, stream, track, t.generation});
    }

    // Work is counted exactly, so that a pace which changes and changes back at one instant leaves
    // no trace, whatever the order.
    static std::int64_t pace(const TrackState& t, bool communicating) {
        return communicating ? 1000 : 1000 + t.slowdown;
    }
    static Picoseconds end_of_work(const TrackState& t, bool communicating) {
        const std::int64_t rate = pace(t, communicating);
        return t.work_since + (t.work_left + rate - 1) / rate;
    }

    // Communication of a rank begins or ends: a compute op in progress changes its pace.
    void set_communicating(TrackId track, int change, Picoseconds now) {
        TrackState& t = state(track);
        if (t.slowdown == 0) return;
        const bool before = t.communicating > 0;
        t.communicating = static_cast<std::uint32_t>(static_cast<int>(t.communicating) + change);
        const bool after = t.communicating > 0;
        StreamState& compute = t.streams[kCompute];
        if (before == after || !compute.busy) return;
        Event& e = compute.head;
        if (e.end == 0 || e.start > now) return;  // has an appointment, has not begun
        t.work_left =
            std::max<std::int64_t>(0, t.work_left - (now - t.work_since) * pace(t, before));
        t.work_since = now;
        e.end = end_of_work(t, after);
        queue_.push(e.end, {Kind::end, kCompute, track, ++t.generation});
    }

    void arrive(std::int32_t group, TrackId track, std::size_t stream, Picoseconds takes,
                Picoseconds now) {
        GroupState& g = groups_[static_cast<std::size_t>(group)];
        const std::uint32_t number = state(track).streams[stream].next->number;
        if (g.arrived == 0) {
            g.first_op_number = number;
            g.duration = 0;
        }
        ORRERY_CHECK(number == g.first_op_number ||
                         (index_.kind(number) == index_.kind(g.first_op_number) &&
                          index_.elements(number) == index_.elements(g.first_op_number)),
                     "members of a group disagree on their collective");
        g.duration = std::max(g.duration, takes);
        const auto& members = in_.groups[static_cast<std::size_t>(group)];
        if (++g.arrived < members.size()) return;
        g.arrived = 0;
        const auto came = [&](TrackId member) {
            const TrackState& t = state(member);
            return t.streams[stream].head.ready + late(t, t.streams[stream].next->op);
        };
        // Of several that came last together the first is named: the same program in a folded run
        // and in an unfolded one.
        const TrackId last = *std::find_if(members.begin(), members.end(),
                                           [&](TrackId member) { return came(member) == now; });
        // All lie in one group, and take of the network alike.
        const NetworkUse use = use_of(members.front(), number);
        const bool shared = flows_.shares(use);
        members_.clear();
        for (TrackId member : members) {
            TrackState& t = state(member);
            StreamState& s = t.streams[stream];
            s.head.start = now;
            s.head.late_track = came(member) == now ? -1 : last;
            set_communicating(member, +1, now);
            if (shared) {
                members_.push_back(flow_member(member, stream, use));
                continue;
            }
            const OpTime* own = time_of(t, s.next->op);
            s.head.end = now + (own == nullptr ? g.duration : own->duration);
            queue_.push(s.head.end, {Kind::end, stream, member, t.generation});
        }
        if (shared) flows_.begin(members_, false, g.duration, now);
    }

    NetworkUse use_of(TrackId track, std::uint32_t number) { return spec(track).use_of(number); }
    static NetworkFlows::Member flow_member(
        TrackId track, std::size_t stream, const NetworkUse& use,
        NetworkFlows::Direction direction = NetworkFlows::Direction::both) {
        return {track, static_cast<std::uint8_t>(stream), direction, use};
    }

    Picoseconds handle_next() {
        const auto entry = queue_.pop();
        check_clock(entry.time);
        check_stop();
        handle(entry.time, entry.payload);
        return entry.time;
    }

    void settle_flows(Picoseconds now) { push_ends(flows_.settle(now)); }
    void push_ends(const std::vector<NetworkFlows::Ending>& endings) {
        for (const NetworkFlows::Ending& ending : endings)
            queue_.push(ending.time, {Kind::flow_end, 0, ending.flow, ending.generation});
    }

    void end_flow(Picoseconds now, const Happening& what) {
        if (!what.is_of(flows_.generation(what.track()))) return;  // its end has been moved
        const bool transfer = flows_.is_transfer(what.track());
        flows_.end(what.track(), ended_);
        for (const NetworkFlows::Member& member : ended_) {
            if (transfer) {
                end_transfer(member.track, member.stream, now);
                continue;
            }
            state(member.track).streams[member.stream].head.end = now;
            set_communicating(member.track, -1, now);
            finish(member.track, member.stream, now);
        }
    }

    static const plan::Step& step_of(const TrackState& t, const StreamOp& exchange) {
        return t.program->program->steps[t.program->linked->step[exchange.op]];
    }

    Picoseconds longest_transfer(TrackId track, const plan::Step& step) const {
        Picoseconds longest = 0;
        for (const plan::Transfer& transfer : step.transfers)
            longest = std::max(longest, spec(track).time_of(transfer));
        return longest;
    }

    void begin_exchange(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        Exchanging& mine = t.exchanging[place_of(stream)];
        mine.step = &step_of(t, *t.streams[stream].next);
        mine.stream = static_cast<std::uint8_t>(stream);
        mine.outstanding = static_cast<std::uint32_t>(mine.step->transfers.size());
        mine.begun = 0;
        for (std::size_t i = 0; i < mine.step->transfers.size(); ++i)
            match(track, mine, i, now);
    }

    // A transfer begins when an exchange of the peer's holds its other side.
    void match(TrackId track, Exchanging& mine, std::size_t index, Picoseconds now) {
        const plan::Transfer& transfer = mine.step->transfers[index];
        const TrackId peer = spec(track).pipeline_peers[static_cast<std::size_t>(transfer.peer)];
        for (Exchanging& theirs : state(peer).exchanging) {
            if (theirs.step == nullptr) continue;
            for (std::size_t i = 0; i < theirs.step->transfers.size(); ++i) {
                if (((theirs.begun >> i) & 1U) != 0 ||
                    !plan::same_message(transfer, spec(track).program, theirs.step->transfers[i]))
                    continue;
                mine.begun |= std::uint64_t{1} << index;
                theirs.begun |= std::uint64_t{1} << i;
                return begin_transfer({track, mine.stream}, {peer, theirs.stream}, transfer, now);
            }
        }
    }

    struct Side {
        TrackId track = 0;
        std::uint8_t stream = 0;
    };

    void begin_transfer(Side mine, Side theirs, const plan::Transfer& transfer, Picoseconds now) {
        const TrackId track = mine.track;
        const Picoseconds takes = spec(track).time_of(transfer);
        // An exchange of known times ends by its own.
        const NetworkUse use =
            state(track).times == nullptr ? spec(track).use_of(transfer) : NetworkUse{};
        const bool shared = flows_.shares(use);
        for (const Side& side : {mine, theirs}) {
            TrackState& t = state(side.track);
            StreamState& s = t.streams[side.stream];
            s.head.start = now;
            s.head.late_track = side.track != track && s.head.ready < now ? track : -1;
            set_communicating(side.track, +1, now);
            if (shared) continue;
            const OpTime* own = time_of(t, s.next->op);
            queue_.push(now + (own == nullptr ? takes : own->duration),
                        {Kind::transfer_end, side.stream, side.track});
        }
        if (!shared) return;
        using Direction = NetworkFlows::Direction;
        const bool sends = plan::is_send(transfer.action.kind);
        members_ = {
            flow_member(track, mine.stream, use, sends ? Direction::out : Direction::in),
            flow_member(theirs.track, theirs.stream, use, sends ? Direction::in : Direction::out)};
        flows_.begin(members_, true, takes, now);
    }

    void end_transfer(TrackId track, std::size_t stream, Picoseconds now) {
        set_communicating(track, -1, now);
        TrackState& t = state(track);
        Exchanging& exchanging = t.exchanging[place_of(stream)];
        if (--exchanging.outstanding > 0) return;
        exchanging.step = nullptr;
        t.streams[stream].head.end = now;
        finish(track, stream, now);
    }

    // An op has ended: the host may go on, and heads that waited may start.
    void finish(TrackId track, std::size_t stream, Picoseconds now) {
        TrackState& t = state(track);
        StreamState& s = t.streams[stream];
        const std::uint32_t op = s.next->op;
        listener_->ended(track, op, s.next->number, s.head);
        ++result_.processed;
        ++t.ended;
        ++s.position;
        s.busy = false;
        s.last = static_cast<std::int32_t>(op);
        s.last_end = now;
        s.last_on = kOwnStream;
        take_head(t, stream);
        std::uint32_t heads = release(t, stream, op, now) | issue(t, now);
        try_head(track, stream, now);
        for (heads &= ~(1U << stream); heads != 0; heads &= heads - 1)
            try_head(track, static_cast<std::size_t>(std::countr_zero(heads)), now);
    }

    void end_op(Picoseconds now, const Happening& what) {
        TrackState& t = state(what.track());
        if (what.stream() == kCompute) {
            if (!what.is_of(t.generation)) return;  // its end has been moved
            ++t.generation;
        }
        if (t.streams[what.stream()].next->beside) set_communicating(what.track(), -1, now);
        finish(what.track(), what.stream(), now);
    }

    void handle(Picoseconds now, const Happening& what) {
        switch (what.kind()) {
            case Kind::start:
                return begin(what.track(), what.stream(), now);
            case Kind::end:
                return end_op(now, what);
            case Kind::transfer_end:
                return end_transfer(what.track(), what.stream(), now);
            case Kind::flow_end:
                return end_flow(now, what);
        }
    }

    void report_stuck();

    const EngineInput& in_;
    const std::vector<EngineTrack>& specs_;
    EngineListener* listener_;
    const OpIndex& index_;
    std::vector<TrackState> tracks_;
    std::vector<Picoseconds> rings_;  // StreamState::issued_at
    std::uint32_t events_since_look_ = 0;
    std::vector<GroupState> groups_;
    EventQueue<Happening> queue_;
    NetworkFlows flows_;
    std::vector<NetworkFlows::Member> members_, ended_;  // of one that begins, of one that ends
    EngineRun result_;
    std::uint64_t ops_ = 0;  // of all tracks
};

// Nothing is pending: whatever has not ended never will.
void Engine::report_stuck() {
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
        const TrackState& t = tracks_[i];
        const plan::LinkedProgram& linked = *t.program->linked;
        for (const StreamState& s : t.streams) {
            if (s.next == nullptr) continue;
            const std::uint32_t op = s.next->op;
            std::string why;
            if (s.busy)
                why = "its peers";
            else if (op >= t.issued)
                why = "the host";
            else
                for (std::uint32_t w = linked.first_wait[op]; w < linked.first_wait[op + 1]; ++w) {
                    const plan::Wait& wait = linked.waits[w];
                    const auto on = static_cast<std::size_t>(wait.stream);
                    if (t.streams[on].position < wait.count)
                        why = "op " + std::to_string(t.program->stream_ops[on][wait.count - 1].op) +
                              " on " + std::string(plan::name(wait.stream));
                }
            result_.stuck.push_back({static_cast<TrackId>(i), op, why});
        }
    }
}

}  // namespace

EngineRun run_engine(const EngineInput& input, EngineListener& listener) {
    return run_engine(input, input.tracks, listener);
}

EngineRun run_engine(const EngineInput& input, const std::vector<EngineTrack>& tracks,
                     EngineListener& listener) {
    const OpIndex index(input);
    return Engine(input, tracks, index, listener).run();
}

// --- among others

struct EngineInTurns::Running {
    explicit Running(const EngineInput& of)
        : input(of), index(std::make_shared<const OpIndex>(of)) {}
    Running(const Running& other) : input(other.input), index(other.index), engine(other.engine) {
        if (engine) engine->lay_out_rings_as(*other.engine);
    }

    const EngineInput& input;
    std::shared_ptr<const OpIndex> index;  // copies share it
    std::optional<Engine> engine;
};

EngineInTurns::EngineInTurns(const EngineInput& input)
    : running_(std::make_unique<Running>(input)) {}
EngineInTurns::~EngineInTurns() = default;
EngineInTurns::EngineInTurns(const EngineInTurns& other)
    : running_(std::make_unique<Running>(*other.running_)) {}
EngineInTurns::EngineInTurns(EngineInTurns&&) noexcept = default;
EngineInTurns& EngineInTurns::operator=(EngineInTurns&&) noexcept = default;

void EngineInTurns::begin(EngineListener& listener, std::vector<FlowCall>* calls) {
    running_->engine.emplace(running_->input, running_->input.tracks, *running_->index, listener);
    flows().record(calls);
    running_->engine->begin();
}
void EngineInTurns::tell(EngineListener& listener) {
    running_->engine->tell(listener);
}
NetworkFlows& EngineInTurns::flows() {
    return running_->engine->flows();
}
std::uint64_t EngineInTurns::processed() const {
    return running_->engine->processed();
}
bool EngineInTurns::over() const {
    return running_->engine->over();
}
Picoseconds EngineInTurns::next_time() const {
    return running_->engine->next_time();
}
void EngineInTurns::run_moment() {
    running_->engine->run_moment();
}
bool EngineInTurns::ask() {
    const bool unsettled = running_->engine->flows().unsettled();
    if (unsettled) running_->engine->flows().ask();
    return unsettled;
}
void EngineInTurns::limit(std::int32_t flow, std::int64_t rate) {
    running_->engine->flows().limit(flow, rate);
}
void EngineInTurns::grant(Picoseconds now) {
    running_->engine->take_ends(now);
}
EngineRun EngineInTurns::finish() {
    return running_->engine->finish();
}

}  // namespace orrery::sim
