#include "calib/compare/recorded_timeline.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "plan/ir/link.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "trace/joining.hpp"

namespace orrery::compare {
namespace {

using trace::Picoseconds;

// An op of a rank, in its own time.
struct Placed {
    bool known = false;             // it has a time, if not a place
    std::vector<std::size_t> work;  // what it was matched with, one by one; empty: by kind alone
    Picoseconds takes = 0;
    Picoseconds came = 0, end = 0;       // from the step's start, in the plan's order
    std::int32_t late_track = -1;        // whose coming it waited for
    std::vector<std::size_t> consumers;  // the first of each other stream that waits for it

    std::vector<std::size_t> messages;  // of which a compute op is a consumer

    bool is_told() const { return !work.empty(); }
};

class RankTimeline {
  public:
    // `track` may stand for other ranks besides.
    RankTimeline(plan::Rank number, const RecordedRank& rank, const RankMatch& match,
                 const trace::Trace& predicted, const trace::Track& track,
                 const plan::LinkedProgram& linked)
        : number_(number),
          rank_(rank),
          predicted_(predicted),
          track_(track),
          program_(predicted.programs[static_cast<std::size_t>(track.program)]),
          first_(trace::first_of_last_step(program_)),
          ops_(program_.op.size() - first_) {
        for (const auto& [id, item] : match.ops) {
            Placed& op = ops_[id - first_];
            op.known = true;
            op.work.push_back(item);
        }
        for (const SharedTime& one : match.shared) {
            Placed& op = ops_[one.op - first_];
            op.known = true;
            op.takes = one.end - one.start;
        }
        for (std::size_t id = 0; id < ops_.size(); ++id) {
            // What takes no time is no kernel.
            const trace::Event event = track.events[first_ + id];
            if (event.end == event.start) ops_[id].known = true;
            if (ops_[id].is_told()) ops_[id].takes = span_of(id).duration();
        }
        find_consumers(linked);
    }

    bool is_whole() const {
        return std::all_of(ops_.begin(), ops_.end(), [](const Placed& op) { return op.known; });
    }

    void lay_out() {
        lay_out_computing();
        lay_out_messages();
    }

    plan::Rank number() const { return number_; }
    std::int32_t program() const { return track_.program; }
    const trace::OpName& op(std::size_t id) const {
        return predicted_.ops[program_.op[first_ + id]];
    }
    std::size_t step(std::size_t id) const { return program_.step[first_ + id]; }
    std::vector<Placed>& ops() { return ops_; }
    const WorkItem& work(std::size_t item) const { return rank_.work[item]; }

    // From the first of what an op was matched with to the last.
    RecordedWindow span_of(std::size_t id) const {
        RecordedWindow span{INT64_MAX, INT64_MIN};
        for (const std::size_t item : ops_[id].work) {
            const RecordedWindow one = since_start(rank_.work[item]);
            span.start = std::min(span.start, one.start);
            span.end = std::max(span.end, one.end);
        }
        return span;
    }
    // Of the step.
    RecordedWindow since_start(const WorkItem& item) const {
        const Picoseconds begin = rank_.steps[rank_.typical].start;
        return {item.start - begin, item.end - begin};
    }

  private:
    bool computes(std::size_t id) const { return op(id).stream == plan::Stream::compute; }

    void find_consumers(const plan::LinkedProgram& linked) {
        std::array<std::vector<std::size_t>, plan::kStreams> on_stream;
        std::array<std::array<std::size_t, plan::kStreams>, plan::kStreams> consumed{};
        for (std::size_t id = 0; id < ops_.size(); ++id) {
            const plan::Stream own = op(id).stream;
            on_stream[plan::index_of(own)].push_back(id);
            for (std::uint32_t w = linked.first_wait[id]; w < linked.first_wait[id + 1]; ++w) {
                const plan::Wait& wait = linked.waits[w];
                const std::vector<std::size_t>& awaited = on_stream[plan::index_of(wait.stream)];
                std::size_t& ended = consumed[plan::index_of(own)][plan::index_of(wait.stream)];
                for (; ended < wait.count; ++ended) {
                    ops_[awaited[ended]].consumers.push_back(id);
                    if (own == plan::Stream::compute) ops_[id].messages.push_back(awaited[ended]);
                }
            }
        }
    }

    // A compute op that was told from the others, as it was recorded.
    struct Slot {
        RecordedWindow span;
        Picoseconds before = 0;  // from where the ones before it had ended
    };

    // In order of time. The plan may have the ops in another order: its n-th takes as long as it
    // took, as long after the one before it as the n-th that was recorded.
    std::vector<Slot> slots() const {
        std::vector<Slot> slots;
        for (std::size_t id = 0; id < ops_.size(); ++id)
            if (computes(id) && ops_[id].is_told()) slots.push_back({span_of(id), 0});
        std::stable_sort(slots.begin(), slots.end(),
                         [](const Slot& a, const Slot& b) { return a.span.start < b.span.start; });
        Picoseconds ended = 0;
        for (Slot& slot : slots) {
            slot.before = std::max<Picoseconds>(0, slot.span.start - ended);
            ended = std::max(ended, slot.span.end);
        }
        const Picoseconds whole = rank_.steps[rank_.typical].duration();
        slots.push_back({{whole, whole}, std::max<Picoseconds>(0, whole - ended)});
        return slots;
    }

    // Between two ops that were told apart lie those that were not, as long as they take, or as
    // they have room for; messages that these wait for; and what is left of the time is lost before
    // the second.
    void lay_out_computing() {
        const std::vector<Slot> slots = this->slots();
        Picoseconds free = 0;
        std::size_t id = 0, last = ops_.size();
        for (const Slot& slot : slots) {
            std::size_t next = id;
            Picoseconds shared = 0;
            for (; next < ops_.size() && !(computes(next) && ops_[next].is_told()); ++next)
                if (computes(next)) shared += ops_[next].takes;
            const double room = shared > slot.before
                                    ? static_cast<double>(slot.before) / static_cast<double>(shared)
                                    : 1;
            Picoseconds left = std::max<Picoseconds>(0, slot.before - shared);
            const Gap gap{slot.span.start - slot.before, free};
            for (; id < next; ++id) {
                Placed& op = ops_[id];
                if (!computes(id)) {
                    op.came = free;  // if it was not told, it follows what was computed before
                    continue;
                }
                op.takes = static_cast<Picoseconds>(static_cast<double>(op.takes) * room);
                const Picoseconds waits =
                    std::clamp<Picoseconds>(awaited_by(id, gap) - free, 0, left);
                left -= waits;
                op.came = free + waits;
                op.end = free = op.came + op.takes;
                last = id;
            }
            if (id == ops_.size()) {
                // The host's time after the last op is no message's, and is lost before it.
                if (last < ops_.size()) {
                    ops_[last].came += left;
                    free = ops_[last].end += left;
                }
                places_.emplace_back(slot.span.end, free);
                return;
            }
            Placed& told = ops_[id];
            told.came = free + left;
            told.end = free = told.came + told.takes;
            place(slot.span.start, told.came);
            place(slot.span.end, told.end);
            last = id++;
        }
    }

    void place(Picoseconds recorded, Picoseconds placed) {
        if (places_.empty()) places_.emplace_back(0, 0);
        if (recorded > places_.back().first) places_.emplace_back(recorded, placed);
    }

    // Before an op that was told apart: where the ones before it had ended, and where they do now.
    struct Gap {
        Picoseconds recorded = 0, placed = 0;
    };

    // Until when messages last of which an op in a gap is the first to wait for.
    Picoseconds awaited_by(std::size_t id, const Gap& gap) const {
        Picoseconds until = 0;
        for (const std::size_t message : ops_[id].messages)
            until = std::max(until, ops_[message].is_told()
                                        ? gap.placed + span_of(message).end - gap.recorded
                                        : ops_[message].came + ops_[message].takes);
        return until;
    }

    // Where a time of the recorded step lies among the ops as they are laid out.
    Picoseconds placed(Picoseconds recorded) const {
        const auto after = std::lower_bound(
            places_.begin(), places_.end(), recorded,
            [](const auto& place, Picoseconds time) { return place.first < time; });
        if (after == places_.end()) return places_.back().second + recorded - places_.back().first;
        if (after->first == recorded || after == places_.begin()) return after->second;
        const auto before = std::prev(after);
        const double share = static_cast<double>(recorded - before->first) /
                             static_cast<double>(after->first - before->first);
        return before->second + static_cast<Picoseconds>(
                                    share * static_cast<double>(after->second - before->second));
    }

    // What was told apart lies where it lay, and lasts no longer than until what computes with it
    // began. The others fill what room there is on their streams until whatever waits for them.
    void lay_out_messages() {
        std::vector<Picoseconds> latest(ops_.size(), INT64_MAX);  // by which an op must have ended
        std::array<Picoseconds, plan::kStreams> next;
        next.fill(INT64_MAX);
        for (std::size_t id = ops_.size(); id-- > 0;) {
            if (computes(id)) continue;
            Placed& op = ops_[id];
            Picoseconds& until = next[plan::index_of(this->op(id).stream)];
            if (!op.is_told()) latest[id] = until;
            for (const std::size_t consumer : op.consumers)
                if (computes(consumer))
                    latest[id] = std::min(latest[id], ops_[consumer].came);
                else if (!op.is_told())
                    latest[id] = std::min(latest[id], begins(consumer, latest));
            if (!op.is_told()) continue;
            const RecordedWindow span = span_of(id);
            op.came = placed(span.start);
            op.end = std::min(std::max(placed(span.end), op.came + op.takes), latest[id]);
            op.came = std::min(op.came, op.end);
            op.takes = std::min(op.takes, op.end - op.came);
            until = op.end - op.takes;
        }
        std::array<Picoseconds, plan::kStreams> free{};
        for (std::size_t id = 0; id < ops_.size(); ++id) {
            if (computes(id)) continue;
            Placed& op = ops_[id];
            Picoseconds& ended = free[plan::index_of(this->op(id).stream)];
            if (!op.is_told()) {
                op.came = std::max(op.came, ended);
                op.takes = std::clamp<Picoseconds>(latest[id] - op.came, 0, op.takes);
                op.end = op.came + op.takes;
            }
            ended = std::max(ended, op.end);
        }
    }

    // At the latest.
    Picoseconds begins(std::size_t id, const std::vector<Picoseconds>& latest) const {
        return ops_[id].is_told() ? ops_[id].end - ops_[id].takes : latest[id];
    }

    plan::Rank number_;
    const RecordedRank& rank_;
    const trace::Trace& predicted_;
    const trace::Track& track_;
    const trace::ProgramOps& program_;
    std::size_t first_;  // op of the last step of those that are predicted
    std::vector<Placed> ops_;
    std::vector<std::pair<Picoseconds, Picoseconds>> places_;  // of recorded times, ascending
};

// The ranks of a job, of which messages are.
class Timelines {
  public:
    Timelines(std::vector<RankTimeline> ranks, const plan::Plan& plan)
        : ranks_(std::move(ranks)), plan_(plan) {
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            track_of_[ranks_[r].number()] = r;
    }

    // Whoever comes early waits: of a message's time only what passes from when its last member is
    // there is its own.
    void part_waiting() {
        std::vector<std::map<std::size_t, Message>> messages(ranks_.size());
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            for (std::size_t id = 0; id < ranks_[r].ops().size(); ++id)
                if (const Message message = part(r, id); message.last >= 0)
                    messages[r][id] = message;
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            for (const auto& [id, message] : messages[r]) {
                Placed& op = ranks_[r].ops()[id];
                op.takes = message.takes;
                if (op.is_told()) op.late_track = message.last;
            }
    }

    // What to add to times of a rank's step, so that those of all are of one clock, in which the
    // last rank begins its step at 0. Members of a collective are done with it together, but for
    // what their threads waited for a core: in the median. Messages from rank to rank come as long
    // after they were sent, whichever way they go, and none before.
    void align() {
        std::map<std::pair<std::size_t, std::size_t>, Differences> pairs;  // by lower, higher
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            for (std::size_t id = 0; id < ranks_[r].ops().size(); ++id)
                compare_ends(r, id, pairs);
        shifts_.assign(ranks_.size(), 0);
        std::vector<bool> known(ranks_.size());
        for (std::size_t begin = 0; begin < ranks_.size(); ++begin) {
            if (known[begin]) continue;
            known[begin] = true;
            for (bool found = true; std::exchange(found, false);)
                for (const auto& [pair, differences] : pairs) {
                    const auto& [lower, higher] = pair;
                    if (known[lower] == known[higher]) continue;
                    const Picoseconds ahead = differences.ahead();
                    if (known[lower])
                        shifts_[higher] = shifts_[lower] - ahead;
                    else
                        shifts_[lower] = shifts_[higher] + ahead;
                    known[lower] = known[higher] = found = true;
                }
        }
        const Picoseconds last = *std::max_element(shifts_.begin(), shifts_.end());
        for (Picoseconds& shift : shifts_)
            shift -= last;
    }

    Picoseconds shift(std::size_t r) const { return shifts_[r]; }
    std::vector<RankTimeline>& ranks() { return ranks_; }

  private:
    struct Message {
        Picoseconds takes = 0;
        std::int32_t last = -1;  // track of whom it waited for; −1: nobody
    };

    // Of messages on two ranks' clocks.
    struct Differences {
        std::vector<Picoseconds> together;             // the higher's end less the lower's
        std::vector<Picoseconds> to_higher, to_lower;  // a receiver's end less its sender's
        // No end comes before the other's start.
        Picoseconds least = INT64_MIN, most = INT64_MAX;

        void bound(const RecordedWindow& lower, const RecordedWindow& higher, bool to_lower_too,
                   bool to_higher_too) {
            if (to_higher_too) most = std::min(most, higher.end - lower.start);
            if (to_lower_too) least = std::max(least, higher.start - lower.end);
        }
        // How far the higher's clock is.
        Picoseconds ahead() const {
            const Picoseconds guess = by_medians();
            return least <= most ? std::clamp(guess, least, most) : guess;
        }

      private:
        static Picoseconds median(std::vector<Picoseconds> values) {
            const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
            std::nth_element(values.begin(), middle, values.end());
            return *middle;
        }
        Picoseconds by_medians() const {
            if (!together.empty()) return median(together);
            if (to_lower.empty()) return median(to_higher);
            if (to_higher.empty()) return -median(to_lower);
            return (median(to_higher) - median(to_lower)) / 2;
        }
    };

    bool is_exchange(std::size_t r, std::size_t id) {
        return ranks_[r].op(id).kind == plan::OpKind::exchange;
    }

    void compare_ends(std::size_t r, std::size_t id,
                      std::map<std::pair<std::size_t, std::size_t>, Differences>& pairs) {
        RankTimeline& own = ranks_[r];
        if (!own.ops()[id].is_told()) return;
        if (!is_exchange(r, id)) {
            // Each with the first alone: a group of n has n² pairs.
            const std::vector<std::size_t> members = members_of(r, id);
            if (members.empty() || members.front() > r) return;
            const std::size_t first = members.front();
            if (!ranks_[first].ops()[id].is_told()) return;
            const RecordedWindow lower = ranks_[first].span_of(id), higher = own.span_of(id);
            Differences& pair = pairs[{first, r}];
            pair.together.push_back(higher.end - lower.end);
            pair.bound(lower, higher, true, true);
            return;
        }
        for (const Sides& sides : sides_of(r, id)) {
            if (sides.other == nullptr || sides.own->way != MessageWay::received) continue;
            const RecordedWindow received = own.since_start(*sides.own),
                                 sent = ranks_[sides.peer].since_start(*sides.other);
            Differences& pair = pairs[std::minmax(r, sides.peer)];
            const bool up = r > sides.peer;
            (up ? pair.to_higher : pair.to_lower).push_back(received.end - sent.end);
            pair.bound(up ? sent : received, up ? received : sent, !up, up);
        }
    }

    // Tracks of the other members that run the same program.
    std::vector<std::size_t> members_of(std::size_t r, std::size_t id) const {
        std::vector<std::size_t> members;
        const RankTimeline& own = ranks_[r];
        const plan::GroupKind group = own.op(id).group;
        if (group == plan::GroupKind::none) return members;
        for (const plan::Rank member : plan_.mesh.group(group, own.number())) {
            const auto other = track_of_.find(member);
            if (member != own.number() && other != track_of_.end() &&
                ranks_[other->second].program() == own.program())
                members.push_back(other->second);
        }
        return members;
    }

    Message part(std::size_t r, std::size_t id) {
        RankTimeline& own = ranks_[r];
        const Placed& op = own.ops()[id];
        Message message{op.takes, -1};
        if (op.is_told() && is_exchange(r, id)) return part_exchange(r, id);
        for (const std::size_t other : members_of(r, id)) {
            RankTimeline& theirs = ranks_[other];
            // Where nobody knows who came last, the least of all is nobody's waiting.
            const Picoseconds takes =
                op.is_told() && theirs.ops()[id].is_told()
                    ? own.span_of(id).end + shifts_[r] - theirs.span_of(id).start - shifts_[other]
                    : theirs.ops()[id].takes;
            if (takes < message.takes)
                message = {std::max<Picoseconds>(0, takes), static_cast<std::int32_t>(other)};
        }
        return message;
    }

    // Ends as long after the last of its transfers has begun.
    Message part_exchange(std::size_t r, std::size_t id) {
        RankTimeline& own = ranks_[r];
        Message message{own.ops()[id].takes, -1};
        for (const Sides& sides : sides_of(r, id)) {
            if (sides.other == nullptr) continue;
            const Picoseconds takes = own.span_of(id).end + shifts_[r] -
                                      ranks_[sides.peer].since_start(*sides.other).start -
                                      shifts_[sides.peer];
            if (takes < message.takes)
                message = {std::max<Picoseconds>(0, takes), static_cast<std::int32_t>(sides.peer)};
        }
        return message;
    }

    // What was recorded of a transfer on its two ranks.
    struct Sides {
        const WorkItem* own = nullptr;
        std::size_t peer = 0;
        const WorkItem* other = nullptr;  // null: not known
    };
    std::vector<Sides> sides_of(std::size_t r, std::size_t id) {
        std::vector<Sides> all;
        RankTimeline& own = ranks_[r];
        const auto& transfers = transfers_of(own, id);
        for (std::size_t i = 0; i < transfers.size(); ++i) {
            Sides sides;
            sides.own = recorded_of(own, id, transfers, i);
            if (sides.own == nullptr) continue;
            const auto peer =
                track_of_.find(plan_.mesh.pipeline_peer(own.number(), transfers[i].peer));
            if (peer != track_of_.end()) {
                sides.peer = peer->second;
                sides.other = other_side(transfers[i], own.program(), ranks_[peer->second]);
            }
            all.push_back(sides);
        }
        return all;
    }

    const std::vector<plan::Transfer>& transfers_of(const RankTimeline& rank,
                                                    std::size_t id) const {
        return plan_.programs[static_cast<std::size_t>(rank.program())]
            .steps[rank.step(id)]
            .transfers;
    }

    // What was recorded of one transfer of an exchange; null: it was not told from the others.
    static const WorkItem* recorded_of(RankTimeline& rank, std::size_t id,
                                       const std::vector<plan::Transfer>& transfers,
                                       std::size_t transfer) {
        const std::vector<std::size_t>& work = rank.ops()[id].work;
        if (work.size() != transfers.size()) return nullptr;
        const auto way = way_of(transfers[transfer]);
        std::size_t before = static_cast<std::size_t>(std::count_if(
            transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(transfer),
            [&](const plan::Transfer& one) { return way_of(one) == way; }));
        for (const std::size_t item : work)
            if (transfers.size() == 1 || (rank.work(item).way == way && before-- == 0))
                return &rank.work(item);
        return nullptr;
    }

    const WorkItem* other_side(const plan::Transfer& transfer, std::int32_t program,
                               RankTimeline& theirs) const {
        for (std::size_t id = 0; id < theirs.ops().size(); ++id) {
            if (theirs.op(id).kind != plan::OpKind::exchange) continue;
            const auto& sides = transfers_of(theirs, id);
            for (std::size_t i = 0; i < sides.size(); ++i)
                if (plan::same_message(transfer, program, sides[i]))
                    return recorded_of(theirs, id, sides, i);
        }
        return nullptr;
    }

    std::vector<RankTimeline> ranks_;
    const plan::Plan& plan_;
    std::map<plan::Rank, std::size_t> track_of_;
    std::vector<Picoseconds> shifts_;
};

void keep_last_step(trace::ProgramOps& program) {
    const auto first = static_cast<std::ptrdiff_t>(trace::first_of_last_step(program));
    program.op.erase(program.op.begin(), program.op.begin() + first);
    program.step.erase(program.step.begin(), program.step.begin() + first);
    program.layer.erase(program.layer.begin(), program.layer.begin() + first);
}

// Nothing where an op of a rank has no time.
std::optional<trace::Trace> in_the_plans_order(const trace::Trace& matched,
                                               const std::vector<const RecordedRank*>& ranks,
                                               const std::vector<RankMatch>& matches,
                                               const trace::Trace& predicted,
                                               const std::vector<const trace::Track*>& tracks,
                                               const plan::Plan& plan) {
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program));
    std::vector<RankTimeline> all;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        all.emplace_back(matched.tracks[r].rank, *ranks[r], matches[r], predicted, *tracks[r],
                         linked[static_cast<std::size_t>(tracks[r]->program)]);
        if (!all.back().is_whole()) return std::nullopt;
    }
    Timelines timelines(std::move(all), plan);
    timelines.align();
    timelines.part_waiting();
    for (RankTimeline& rank : timelines.ranks())
        rank.lay_out();
    trace::Trace out = matched;
    out.programs = predicted.programs;
    for (trace::ProgramOps& program : out.programs)
        keep_last_step(program);
    out.step_start = out.step_end = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        RankTimeline& rank = timelines.ranks()[r];
        trace::Track& track = out.tracks[r];
        track.program = tracks[r]->program;
        std::vector<trace::Event> events;
        const Picoseconds shift = timelines.shift(r);
        // A stream does its ops one after another: of two that ran beside each other, as messages
        // of their own do, the second has what of it came after the first.
        std::array<Picoseconds, plan::kStreams> free;
        free.fill(shift);
        for (std::size_t id = 0; id < rank.ops().size(); ++id) {
            const Placed& op = rank.ops()[id];
            Picoseconds& ended = free[plan::index_of(rank.op(id).stream)];
            trace::Event event;
            event.start = std::max(op.end - op.takes + shift, ended);
            event.ready = op.late_track < 0 ? event.start : std::min(op.came + shift, event.start);
            event.end = ended = std::max(op.end + shift, event.start);
            event.late_track = op.late_track;
            events.push_back(event);
        }
        track.events = events;
        out.step_end = std::max(out.step_end, ranks[r]->steps[ranks[r]->typical].duration());
    }
    return out;
}

}  // namespace

trace::Trace laid_out(const trace::Trace& matched, const std::vector<const RecordedRank*>& ranks,
                      const std::vector<RankMatch>& matches, const trace::Trace& predicted,
                      const std::vector<const trace::Track*>& tracks, const plan::Plan& plan,
                      const plan::Scenario& scenario, const sim::Profile& profile) {
    if (static_cast<std::int64_t>(ranks.size()) != scenario.layout.ranks()) return matched;
    std::optional<trace::Trace> in_order =
        in_the_plans_order(matched, ranks, matches, predicted, tracks, plan);
    if (!in_order) return matched;
    const sim::MeasuredCosts costs(std::move(*in_order), "");
    sim::SimulateOptions how;
    how.costs = &costs;
    sim::Prediction replayed = sim::simulate(scenario, profile, how, matched.scenario_json);
    const bool whole =
        replayed.prices && replayed.stuck.empty() &&
        static_cast<std::int64_t>(replayed.trace.tracks.size()) == scenario.layout.ranks() &&
        replayed.prices->ops[static_cast<std::size_t>(sim::PriceSource::own_time)] ==
            std::accumulate(replayed.prices->ops.begin(), replayed.prices->ops.end(),
                            std::int64_t{0});
    if (!whole) return matched;
    trace::Trace out = std::move(replayed.trace);
    out.origin = trace::Origin::measured;
    out.facts = matched.facts;
    return out;
}

}  // namespace orrery::compare
