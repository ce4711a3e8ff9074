#include "runtime/executor/measured_trace.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "plan/check.hpp"
#include "trace/describe_plan.hpp"

namespace orrery::runtime {
namespace {

constexpr trace::Picoseconds kPerNanosecond = 1000;

class Assembly {
  public:
    Assembly(const plan::Plan& plan, const std::vector<std::vector<OpTime>>& times)
        : plan_(plan), times_(times) {
        for (const plan::Program& program : plan.programs)
            linked_.push_back(plan::link(plan, program));
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                ops_.push_back(&op);
    }

    trace::Trace run(const std::string& scenario_json) {
        trace::Trace trace = trace::describe_plan(plan_, linked_);
        trace.origin = trace::Origin::measured;
        trace.scenario_json = scenario_json;
        origin_ = std::numeric_limits<std::int64_t>::max();
        for (const auto& rank : times_)
            for (const OpTime& time : rank)
                origin_ = std::min(origin_, time.begin);
        for (std::size_t rank = 0; rank < times_.size(); ++rank)
            events_.push_back(events_of(static_cast<plan::Rank>(rank)));
        meet();
        for (std::size_t rank = 0; rank < times_.size(); ++rank) {
            trace::Track& track = trace.tracks.emplace_back();
            track.rank = static_cast<plan::Rank>(rank);
            track.program = static_cast<std::int32_t>(plan_.mesh.coordinates(track.rank).pipeline);
            track.events = events_[rank];
            for (const trace::Event& event : events_[rank])
                trace.step_end = std::max(trace.step_end, event.end);
        }
        return trace;
    }

  private:
    struct Member {
        plan::Rank rank = 0;
        std::size_t id = 0;
    };

    const plan::LinkedProgram& linked(plan::Rank rank) const {
        return linked_[static_cast<std::size_t>(plan_.mesh.coordinates(rank).pipeline)];
    }
    const plan::Op& op(plan::Rank rank, std::size_t id) const { return *ops_[linked(rank).op[id]]; }
    trace::Picoseconds since_origin(std::int64_t nanoseconds) const {
        return (nanoseconds - origin_) * kPerNanosecond;
    }

    // Ready once the op before on its stream and those it waits for on others have ended.
    std::vector<trace::Event> events_of(plan::Rank rank) const {
        const plan::LinkedProgram& program = linked(rank);
        const auto& times = times_[static_cast<std::size_t>(rank)];
        ORRERY_CHECK(times.size() == program.size(), "a time for every op");
        std::vector<trace::Event> events;
        std::array<std::vector<std::int32_t>, plan::kStreams> issued;  // op ids
        for (std::size_t id = 0; id < times.size(); ++id) {
            trace::Event event;
            event.start = since_origin(times[id].begin);
            event.end = since_origin(times[id].end);
            auto after = [&](std::int32_t earlier) {
                const trace::Picoseconds end = events[static_cast<std::size_t>(earlier)].end;
                if (event.blocker >= 0 && end < event.ready) return;
                event.ready = end;
                event.blocker = earlier;
            };
            auto& own = issued[plan::index_of(op(rank, id).stream)];
            if (!own.empty()) after(own.back());
            for (std::uint32_t w = program.first_wait[id]; w < program.first_wait[id + 1]; ++w) {
                const plan::Wait& wait = program.waits[w];
                after(issued[plan::index_of(wait.stream)][wait.count - 1]);
            }
            event.ready = std::min(event.ready, event.start);
            own.push_back(static_cast<std::int32_t>(id));
            events.push_back(event);
        }
        return events;
    }

    // Members of a collective make the same calls in the same order.
    void meet() {
        using Call = std::tuple<plan::GroupKind, plan::Rank, std::size_t>;  // group, first, count
        std::map<Call, std::vector<Member>> calls;
        for (plan::Rank rank = 0; rank < ranks(); ++rank) {
            std::array<std::size_t, plan::kGroupKinds> count{};
            for (std::size_t id = 0; id < events(rank).size(); ++id) {
                const plan::Op& performed = op(rank, id);
                if (!plan::is_communication(performed.kind()) || performed.is<plan::Exchange>())
                    continue;
                const auto members = plan_.mesh.group(performed.group, rank);
                if (members.size() < 2) continue;
                auto& n = count[static_cast<std::size_t>(performed.group)];
                calls[{performed.group, members.front(), n++}].push_back({rank, id});
            }
        }
        for (const auto& [call, members] : calls)
            start_together(members);
        meet_transfers();
    }

    plan::Rank ranks() const { return static_cast<plan::Rank>(events_.size()); }
    std::vector<trace::Event>& events(plan::Rank rank) {
        return events_[static_cast<std::size_t>(rank)];
    }
    trace::Event& event_of(const Member& member) { return events(member.rank)[member.id]; }

    void start_together(const std::vector<Member>& members) {
        Member last = members.front();
        for (const Member& member : members)
            if (event_of(member).start > event_of(last).start) last = member;
        const trace::Picoseconds start = event_of(last).start;
        for (const Member& member : members) {
            trace::Event& event = event_of(member);
            event.start = std::min(std::max(event.start, start), event.end);
            event.late_track = member.rank == last.rank ? -1 : static_cast<std::int32_t>(last.rank);
        }
    }

    // An exchange starts when the peers of all its transfers have come to theirs.
    void meet_transfers() {
        using Message = std::tuple<plan::Rank, plan::Rank, plan::Action>;  // sender, receiver, send
        std::map<Message, std::vector<Member>> messages;
        std::map<std::pair<plan::Rank, std::size_t>, std::vector<Message>> of_exchange;
        for (plan::Rank rank = 0; rank < ranks(); ++rank) {
            const plan::LinkedProgram& program = linked(rank);
            const plan::Program& planned = plan_.program_of(rank);
            for (std::size_t id = 0; id < events(rank).size(); ++id)
                for (const plan::Transfer& transfer : planned.steps[program.step[id]].transfers) {
                    const plan::Rank peer = plan_.mesh.pipeline_peer(rank, transfer.peer);
                    const bool sends = plan::is_send(transfer.action.kind);
                    const Message message{sends ? rank : peer, sends ? peer : rank,
                                          sent_as(transfer.action)};
                    messages[message].push_back({rank, id});
                    of_exchange[{rank, id}].push_back(message);
                }
        }
        std::map<std::pair<plan::Rank, std::size_t>, Member> last_of;
        for (const auto& [exchange, sent] : of_exchange) {
            Member last{exchange.first, exchange.second};
            for (const Message& message : sent)
                for (const Member& side : messages.at(message))
                    if (event_of(side).start > event_of(last).start) last = side;
            last_of[exchange] = last;
        }
        std::map<std::pair<plan::Rank, std::size_t>, trace::Picoseconds> starts;
        for (const auto& [exchange, last] : last_of)
            starts[exchange] = event_of(last).start;
        for (const auto& [exchange, last] : last_of) {
            trace::Event& event = event_of({exchange.first, exchange.second});
            event.start = std::min(starts.at(exchange), event.end);
            event.late_track =
                last.rank == exchange.first ? -1 : static_cast<std::int32_t>(last.rank);
        }
    }

    // Both sides of a message under the sender's name for it.
    static plan::Action sent_as(plan::Action action) {
        using Kind = plan::ActionKind;
        for (const auto& [received, sent] : {std::pair{Kind::recv_f, Kind::send_f},
                                             {Kind::recv_b, Kind::send_b},
                                             {Kind::recv_sum, Kind::send_sum},
                                             {Kind::recv_total, Kind::send_total}})
            if (action.kind == received)
                return {action.stage + plan::hop_to_peer(received), sent, action.micro_batch};
        return action;
    }

    const plan::Plan& plan_;
    const std::vector<std::vector<OpTime>>& times_;
    std::vector<plan::LinkedProgram> linked_;
    std::vector<const plan::Op*> ops_;  // by number across blocks
    std::int64_t origin_ = 0;
    std::vector<std::vector<trace::Event>> events_;  // by rank
};

}  // namespace

trace::Trace measured_trace(const plan::Plan& plan, const std::vector<std::vector<OpTime>>& times,
                            const std::string& scenario_json) {
    return Assembly(plan, times).run(scenario_json);
}

}  // namespace orrery::runtime
