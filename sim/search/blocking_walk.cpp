#include "sim/search/blocking_walk.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "plan/check.hpp"
#include "sim/search/pass_rows.hpp"

namespace orrery::sim {

using plan::Action;
using plan::ActionKind;

// The turns of all ranks in an order in which each follows what it waits for.
class BlockingWalk::Lowering {
  public:
    explicit Lowering(const plan::Schedule& schedule)
        : placement_(schedule.placement),
          rows_(plan::add_transfers(schedule.grid, schedule.placement)),
          ranks_(rows_.size()) {
        for (const auto& row : schedule.grid)
            for (const Action& action : row)
                micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
        const std::size_t all = static_cast<std::size_t>(placement_.stages()) *
                                static_cast<std::size_t>(micro_batches_);
        forward_.assign(all, -1);
        backward_.assign(all, -1);
        came_.assign(2 * all, -1);
    }

    std::vector<Turn> turns() {
        // One pass of each rank after another: a processor then has several under way.
        for (bool moved = true; moved;) {
            const std::size_t before = turns_.size();
            for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
                while (is_at_transfer(rank) && meets(rank)) {
                }
                if (ranks_[rank].next < rows_[rank].size() && !is_at_transfer(rank)) pass(rank);
            }
            moved = turns_.size() > before;
        }
        for (std::size_t rank = 0; rank < rows_.size(); ++rank)
            ORRERY_CHECK(ranks_[rank].next == rows_[rank].size(), "transfers that never meet");
        return std::move(turns_);
    }
    std::size_t passes() const { return static_cast<std::size_t>(passes_); }

  private:
    struct Rank {
        std::size_t next = 0;  // in its row
        bool after_transfer = false;
    };

    const plan::LoweredStep& step(std::size_t rank) const { return rows_[rank][ranks_[rank].next]; }
    bool is_at_transfer(std::size_t rank) const {
        return ranks_[rank].next < rows_[rank].size() && plan::is_transfer(step(rank).action.kind);
    }
    std::size_t at(std::int32_t stage, std::int32_t micro_batch) const {
        return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) +
               static_cast<std::size_t>(micro_batch);
    }

    // The same on both sides.
    std::size_t message(const Action& transfer) const {
        const std::int32_t sender = plan::is_send(transfer.kind)
                                        ? transfer.stage
                                        : transfer.stage + plan::hop_to_peer(transfer.kind);
        return at(sender, transfer.micro_batch) +
               (plan::goes_onward(transfer.kind) ? 0 : forward_.size());
    }

    // Whether the other side of the transfer that the rank has come to is there, too.
    bool meets(std::size_t rank) {
        const plan::LoweredStep& own = step(rank);
        std::size_t both = message(own.action);
        if (own.with) both = std::min(both, message(*own.with));
        if (came_[both] < 0) came_[both] = static_cast<std::int32_t>(rank);
        const auto other = static_cast<std::size_t>(came_[both]);
        if (other == rank) return false;
        const bool sends = plan::is_send(own.action.kind);
        const std::size_t from = sends ? rank : other, to = sends ? other : rank;
        Turn turn;
        turn.rank = static_cast<std::int32_t>(from);
        turn.other = static_cast<std::int32_t>(to);
        turn.both = own.with.has_value();
        turn.for_rank = is_for_next_pass(from);
        turn.for_other = is_for_next_pass(to);
        turns_.push_back(turn);
        for (const std::size_t side : {from, to}) {
            ++ranks_[side].next;
            ranks_[side].after_transfer = true;
        }
        return true;
    }

    bool is_for_next_pass(std::size_t rank) const {
        const plan::LoweredStep& transfer = step(rank);
        const Action received = plan::is_send(transfer.action.kind)
                                    ? transfer.with.value_or(Action{})
                                    : transfer.action;
        if (!plan::is_transfer(received.kind)) return false;  // it sends alone
        const auto& row = rows_[rank];
        std::size_t next = ranks_[rank].next + 1;
        while (next < row.size() && plan::is_transfer(row[next].action.kind))
            ++next;
        if (next == row.size()) return false;
        const Action& pass = row[next].action;
        const bool takes = plan::goes_onward(received.kind) ? pass.kind == ActionKind::forward
                                                            : plan::makes_input_gradient(pass.kind);
        return takes && pass.stage == received.stage && pass.micro_batch == received.micro_batch;
    }

    void pass(std::size_t rank) {
        const Action& action = step(rank).action;
        Turn turn;
        turn.rank = static_cast<std::int32_t>(rank);
        turn.pass = static_cast<std::int32_t>(kPassesOfStage) * action.stage +
                    static_cast<std::int32_t>(action.kind);
        turn.waits_for = own_pass_before(action);
        turn.after_transfer = ranks_[rank].after_transfer;
        if (action.kind == ActionKind::forward)
            forward_[at(action.stage, action.micro_batch)] = passes_;
        if (plan::makes_input_gradient(action.kind))
            backward_[at(action.stage, action.micro_batch)] = passes_;
        ++passes_;
        turns_.push_back(turn);
        ++ranks_[rank].next;
        ranks_[rank].after_transfer = false;
    }

    // What it waits for on its own rank: nothing that comes over the network.
    std::int32_t own_pass_before(const Action& action) const {
        const std::int32_t last = placement_.stages() - 1;
        const bool onward = action.kind == ActionKind::forward;
        if (!onward && !plan::makes_input_gradient(action.kind)) return -1;
        if (!onward && action.stage == last) return forward_[at(last, action.micro_batch)];
        const std::int32_t from = onward ? action.stage - 1 : action.stage + 1;
        if (from < 0 || placement_.rank_of(from) != placement_.rank_of(action.stage)) return -1;
        return (onward ? forward_ : backward_)[at(from, action.micro_batch)];
    }

    const plan::StagePlacement& placement_;
    std::vector<std::vector<plan::LoweredStep>> rows_;
    std::vector<Rank> ranks_;
    std::int32_t micro_batches_ = 0, passes_ = 0;
    std::vector<std::int32_t> forward_, backward_;  // numbers of passes, by stage and micro-batch
    std::vector<std::int32_t> came_;                // by message, the rank that waits for the other
    std::vector<Turn> turns_;
};

BlockingWalk::BlockingWalk(const plan::Schedule& schedule) : ranks_(schedule.grid.size()) {
    Lowering lowering(schedule);
    turns_ = lowering.turns();
    passes_ = lowering.passes();
}

template <typename Seconds, typename Visit>
std::vector<PipelineTimes> BlockingWalk::run_as(std::span<const PipelinePace* const> paces,
                                                Visit& visit) const {
    struct Rank {
        Seconds free{};      // from when on it can compute
        Seconds told{};      // the end of what its last pass makes for others
        Seconds received{};  // the end of its last transfer
        Seconds beside{};    // of transfers that its last pass ran beside
        Seconds gathers{};   // from when on it can gather parameters
    };
    const Passes<Seconds> passes(paces);
    std::vector<Rank> ranks(ranks_);
    // By pass, behind one for none.
    const auto all = std::make_unique_for_overwrite<Seconds[]>(passes_ + 1);
    all[0] = in_all<Seconds>(kLongAgo);
    const Seconds* const told = all.get() + 1;
    Seconds* own = all.get() + 1;
    const auto none = in_all<Seconds>(0);
    Seconds hop{}, last{};
    for (std::size_t i = 0; i < paces.size(); ++i)
        set_lane(hop, i, paces[i]->hop);
    for (const Turn& turn : turns_) {
        Rank& rank = ranks[static_cast<std::size_t>(turn.rank)];
        if (turn.other >= 0) {
            Rank& other = ranks[static_cast<std::size_t>(turn.other)];
            const Seconds there = larger(rank.told, (turn.both ? other : rank).told);
            const Seconds start = larger(larger(rank.received, other.received), there);
            const Seconds end = start + hop;
            visit.transfer(turn, start, end);
            for (Rank* const side : {&rank, &other}) {
                side->beside = side->beside + larger(smaller(end, side->free) - start, none);
                side->free = larger(side->free, end);
                side->received = end;
            }
            continue;
        }
        const std::int32_t row = passes.row_of[static_cast<std::size_t>(turn.pass)];
        const Pass<Seconds>& pass = passes.rows[static_cast<std::size_t>(row)];
        const Seconds there = larger(told[turn.waits_for], rank.received);
        const Seconds came = larger(there, rank.told + pass.asks) + pass.lead;
        const Seconds gathered = rank.gathers + pass.gathers;
        const Seconds free = rank.free + pass.slowed * rank.beside;
        const Seconds start = larger(larger(free, came), gathered);
        const Seconds end = start + pass.busy[turn.after_transfer];
        visit.pass(turn, there, gathered, start, end);
        *own++ = rank.told = end + pass.tail;
        last = larger(last, rank.told);
        rank.gathers = end + pass.gathers_on;
        rank.free = end;
        rank.beside = none;
    }
    std::vector<PipelineTimes> out(paces.size());
    for (std::size_t i = 0; i < paces.size(); ++i) {
        out[i].end = lane(last, i);
        for (const Rank& rank : ranks)
            out[i].rank_ends.push_back(lane(rank.free, i));
    }
    return out;
}

namespace {

struct Ignored {
    template <typename... Times>
    void transfer(const Times&... /*times*/) {}
    template <typename... Times>
    void pass(const Times&... /*times*/) {}
};

}  // namespace

std::vector<PipelineTimes> BlockingWalk::run(std::span<const PipelinePace* const> paces) const {
    Ignored ignored;
    return paces.size() == 1 ? run_as<double>(paces, ignored) : run_as<Four>(paces, ignored);
}

std::vector<std::vector<TimedPass>> BlockingWalk::timed(const plan::Schedule& schedule,
                                                        const PipelinePace& pace) const {
    struct Keep {
        const plan::Schedule& schedule;
        std::vector<std::vector<TimedPass>> passes;
        struct Next {
            double sent = 0, received = 0;
            bool has_input = false;
        };
        std::vector<Next> next;  // of each rank's next pass

        // Whatever a rank does between two passes that does not bring the second its input keeps it
        // with the first.
        void keeps(std::int32_t of, bool for_next, double start, double end) {
            const auto rank = static_cast<std::size_t>(of);
            if (for_next)
                next[rank] = {start, end, true};
            else if (next[rank].has_input)
                next[rank].received = end;
            else if (!passes[rank].empty())
                passes[rank].back().freed = std::max(passes[rank].back().freed, end);
        }
        void transfer(const Turn& turn, double start, double end) {
            keeps(turn.rank, turn.for_rank, start, end);
            keeps(turn.other, turn.for_other, start, end);
        }
        void pass(const Turn& turn, double there, double gathered, double start, double end) {
            const auto rank = static_cast<std::size_t>(turn.rank);
            TimedPass pass;
            pass.action = schedule.grid[rank][passes[rank].size()];
            pass.free = passes[rank].empty() ? 0 : passes[rank].back().freed;
            if (next[rank].has_input) {
                pass.sent = next[rank].sent;
                pass.received = next[rank].received;
                pass.from = schedule.placement.rank_of(
                    pass.action.stage + (pass.action.kind == ActionKind::forward ? -1 : 1));
            } else if (turn.waits_for >= 0) {
                pass.sent = pass.received = there;
            }
            pass.gathered = std::max(0.0, gathered);
            pass.start = start;
            pass.end = pass.freed = end;
            passes[rank].push_back(pass);
            next[rank] = {};
        }
    } keep{schedule, std::vector<std::vector<TimedPass>>(ranks_),
           std::vector<typename Keep::Next>(ranks_)};
    const PipelinePace* const one = &pace;
    run_as<double>(std::span(&one, 1), keep);
    return std::move(keep.passes);
}

}  // namespace orrery::sim
