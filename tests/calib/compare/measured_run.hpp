// A measured trace without a training run: performs a plan with times of the test's choosing, each
// op of each rank its own, by plain data flow and without the simulator's engine. An op is ready
// when what it waits for has ended; a rank comes to it `late` later; it starts when every member
// has come, and ends on each rank after that rank's own `duration`.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"
#include "trace/describe_plan.hpp"
#include "trace/trace.hpp"

namespace orrery::compare {

struct Timing {
    trace::Picoseconds late = 0;
    trace::Picoseconds duration = 0;
};
// Of an op of a rank, by op id.
using Timings = std::function<Timing(plan::Rank, std::uint32_t)>;

class MeasuredRun {
  public:
    MeasuredRun(const plan::Plan& plan, int repetitions, const Timings& timings)
        : plan_(plan), repetitions_(repetitions), timings_(timings) {
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                ops_.push_back(&op);
        for (const plan::Program& program : plan.programs) {
            linked_.push_back(plan::link(plan, program, repetitions));
            on_stream_.emplace_back();
            over_group_.emplace_back();
            for (std::uint32_t i = 0; i < linked_.back().size(); ++i) {
                const plan::Op& op = *ops_[linked_.back().op[i]];
                on_stream_.back()[plan::index_of(op.stream)].push_back(i);
                over_group_.back()[static_cast<std::size_t>(op.group)].push_back(i);
            }
        }
        for (plan::Rank rank = 0; rank < plan.mesh.ranks(); ++rank) {
            events_.emplace_back(program(rank).size());
            came_.emplace_back(program(rank).size(), -1);
            done_.emplace_back(program(rank).size(), false);
            heads_.emplace_back();
        }
    }

    trace::Trace run(const std::string& scenario_json) {
        while (pass()) {
        }
        trace::Trace trace = describe();
        trace.origin = trace::Origin::measured;
        trace.scenario_json = scenario_json;
        for (plan::Rank rank = 0; rank < plan_.mesh.ranks(); ++rank) {
            const auto& all = events_[index(rank)];
            const std::size_t first = all.size() - all.size() / static_cast<unsigned>(repetitions_);
            trace::Track track{rank, {}, static_cast<std::int32_t>(program_of(rank)), {}};
            std::vector<trace::Event> events;
            for (std::size_t i = 0; i < all.size(); ++i) {
                EXPECT_TRUE(done_[index(rank)][i]) << "the plan deadlocks at rank " << rank;
                trace::Picoseconds& edge = i < first ? trace.step_start : trace.step_end;
                edge = std::max(edge, all[i].end);
                if (i < first) continue;
                events.push_back(all[i]);
                std::int32_t& blocker = events.back().blocker;
                if (blocker >= 0)
                    blocker = blocker < static_cast<std::int32_t>(first)
                                  ? trace::kNothing
                                  : blocker - static_cast<std::int32_t>(first);
            }
            track.events = events;
            trace.tracks.push_back(std::move(track));
        }
        return trace;
    }

  private:
    static std::size_t index(plan::Rank rank) { return static_cast<std::size_t>(rank); }
    std::size_t program_of(plan::Rank rank) const {
        return static_cast<std::size_t>(plan_.mesh.coordinates(rank).pipeline);
    }
    const plan::LinkedProgram& program(plan::Rank rank) const { return linked_[program_of(rank)]; }
    const plan::Op& op_at(plan::Rank rank, std::uint32_t op) const {
        return *ops_[program(rank).op[op]];
    }

    trace::Trace describe() const {
        std::vector<plan::LinkedProgram> once;
        for (const plan::Program& program : plan_.programs)
            once.push_back(plan::link(plan_, program));
        return trace::describe_plan(plan_, std::move(once));
    }

    // Whether any op has come or ended that had not. Streams are in order: only heads can.
    bool pass() {
        bool moved = false;
        for (plan::Rank rank = 0; rank < plan_.mesh.ranks(); ++rank)
            for (std::size_t s = 0; s < plan::kStreams; ++s) {
                const auto& ops = on_stream_[program_of(rank)][s];
                for (std::size_t& head = heads_[index(rank)][s]; head < ops.size(); ++head) {
                    const std::uint32_t op = ops[head];
                    if (came_[index(rank)][op] < 0 && !come(rank, op)) break;
                    if (came_[index(rank)][op] >= 0 && !performed(rank, op, moved)) break;
                    moved = true;
                }
            }
        return moved;
    }

    // Who waits for others has at least come, once.
    bool performed(plan::Rank rank, std::uint32_t op, bool& moved) {
        moved |= members_.count({rank, op}) == 0;
        return perform(rank, op);
    }

    Timing timing(plan::Rank rank, std::uint32_t op) const {
        const auto of_one =
            static_cast<std::uint32_t>(program(rank).size() / static_cast<unsigned>(repetitions_));
        return timings_(rank, op % of_one);
    }

    bool come(plan::Rank rank, std::uint32_t op) {
        const auto& streams = on_stream_[program_of(rank)];
        const auto& own = streams[plan::index_of(op_at(rank, op).stream)];
        std::vector<std::uint32_t> before;
        const auto place = std::lower_bound(own.begin(), own.end(), op) - own.begin();
        if (place > 0) before.push_back(own[static_cast<std::size_t>(place) - 1]);
        const plan::LinkedProgram& linked = program(rank);
        for (std::uint32_t w = linked.first_wait[op]; w < linked.first_wait[op + 1]; ++w)
            before.push_back(
                streams[plan::index_of(linked.waits[w].stream)][linked.waits[w].count - 1]);
        trace::Event& event = events_[index(rank)][op];
        for (const std::uint32_t earlier : before) {
            if (!done_[index(rank)][earlier]) return false;
            if (event.blocker >= 0 && events_[index(rank)][earlier].end <= event.ready) continue;
            event.ready = events_[index(rank)][earlier].end;
            event.blocker = static_cast<std::int32_t>(earlier);
        }
        came_[index(rank)][op] = event.ready + timing(rank, op).late;
        return true;
    }

    struct Member {
        plan::Rank rank;
        std::uint32_t op;
    };

    // Everyone who must have come before the op starts, itself included.
    std::vector<Member> members_of(plan::Rank rank, std::uint32_t op) const {
        const plan::Op& what = op_at(rank, op);
        if (!plan::is_communication(what.kind())) return {{rank, op}};
        if (what.kind() == plan::OpKind::exchange) return peers_of(rank, op);
        const auto group = static_cast<std::size_t>(what.group);
        const auto& own = over_group_[program_of(rank)][group];
        const auto turn =
            static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), op) - own.begin());
        std::vector<Member> members;
        for (const plan::Rank other : plan_.mesh.group(what.group, rank))
            members.push_back({other, over_group_[program_of(other)][group].at(turn)});
        return members;
    }

    std::vector<Member> peers_of(plan::Rank rank, std::uint32_t op) const {
        std::vector<Member> members = {{rank, op}};
        const auto of_one =
            static_cast<std::uint32_t>(program(rank).size() / static_cast<unsigned>(repetitions_));
        for (const plan::Transfer& transfer : step_of(rank, op).transfers) {
            const plan::Rank peer = plan_.mesh.pipeline_peer(rank, transfer.peer);
            const auto peers = static_cast<std::uint32_t>(program(peer).size() /
                                                          static_cast<unsigned>(repetitions_));
            const std::uint32_t first = op / of_one * peers;
            for (std::uint32_t i = first; i < first + peers; ++i)
                for (const plan::Transfer& theirs : step_of(peer, i).transfers)
                    if (plan::same_message(transfer, static_cast<std::int32_t>(program_of(rank)),
                                           theirs))
                        members.push_back({peer, i});
        }
        return members;
    }

    const plan::Step& step_of(plan::Rank rank, std::uint32_t op) const {
        return plan_.programs[program_of(rank)].steps[program(rank).step[op]];
    }

    bool perform(plan::Rank rank, std::uint32_t op) {
        const auto [known, fresh] = members_.try_emplace({rank, op});
        if (fresh) known->second = members_of(rank, op);
        Member last{rank, op};
        for (const Member& member : known->second) {
            const trace::Picoseconds came = came_[index(member.rank)][member.op];
            if (came < 0) return false;
            if (came > came_[index(last.rank)][last.op]) last = member;
        }
        trace::Event& event = events_[index(rank)][op];
        event.start = came_[index(last.rank)][last.op];
        event.end = event.start + timing(rank, op).duration;
        event.late_track = last.rank == rank ? -1 : static_cast<std::int32_t>(last.rank);
        done_[index(rank)][op] = true;
        return true;
    }

    const plan::Plan& plan_;
    const int repetitions_;
    const Timings& timings_;
    std::vector<const plan::Op*> ops_;
    std::vector<plan::LinkedProgram> linked_;  // by program
    std::vector<std::array<std::vector<std::uint32_t>, plan::kStreams>> on_stream_;
    std::vector<std::array<std::vector<std::uint32_t>, plan::kGroupKinds>> over_group_;
    std::vector<std::array<std::size_t, plan::kStreams>> heads_;  // by rank: done of each stream
    std::vector<std::vector<trace::Event>> events_;               // by rank, by op id
    std::vector<std::vector<trace::Picoseconds>> came_;           // −1: not yet
    std::vector<std::vector<bool>> done_;
    std::map<std::pair<plan::Rank, std::uint32_t>, std::vector<Member>> members_;
};

inline trace::Trace measured_run(const plan::Plan& plan, const Timings& timings,
                                 const std::string& scenario_json = "{}", int repetitions = 1) {
    return MeasuredRun(plan, repetitions, timings).run(scenario_json);
}

}  // namespace orrery::compare
