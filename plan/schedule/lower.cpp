#include <algorithm>
#include <cstdlib>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "plan/check.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

using Rows = std::vector<std::vector<Action>>;

// Something of each action of a pass or its transfers: numbers in place of a search for each.
template <typename Value>
class ByAction {
  public:
    // Of the actions of a grid, and of transfers of what they make.
    ByAction(const ActionGrid& grid, const StagePlacement& placement, Value none) {
        std::int32_t stages = placement.stages();
        for (const auto& row : grid)
            for (const Action& action : row) {
                stages = std::max(stages, action.stage + 1);
                micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
            }
        values_.assign(
            static_cast<std::size_t>(stages) * kKinds * static_cast<std::size_t>(micro_batches_),
            none);
    }
    typename std::vector<Value>::reference operator[](const Action& action) {
        return values_[place(action)];
    }
    typename std::vector<Value>::const_reference operator[](const Action& action) const {
        return values_[place(action)];
    }

  private:
    static constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::recv_b) + 1;

    std::size_t place(const Action& action) const {
        return (static_cast<std::size_t>(action.stage) * kKinds +
                static_cast<std::size_t>(action.kind)) *
                   static_cast<std::size_t>(micro_batches_) +
               static_cast<std::size_t>(action.micro_batch);
    }

    std::int32_t micro_batches_ = 0;
    std::vector<Value> values_;
};

// One run of the grid in unit time; see add_transfers.
class UnitRun {
  public:
    UnitRun(const ActionGrid& grid, const StagePlacement& placement, bool validates = false,
            bool pairs = false)
        : grid_(grid),
          placement_(placement),
          to_validate_(validates),
          pairs_(pairs),
          rows_(grid.size()),
          timeline_(grid.size()),
          next_(grid.size(), 0),
          busy_(grid.size(), 0),
          ahead_(grid.size(), 0),
          done_(grid, placement, false) {
        for (const auto& row : grid)
            for (const Action& action : row)
                halves_ = halves_ || action.kind == ActionKind::backward_input;
    }

    Rows run() {
        start_all();
        while (!ending_.empty()) {
            now_ = ending_.top().first;
            for (; !ending_.empty() && ending_.top().first == now_; ending_.pop())
                finish(ending_.top().second);
            issue_transfers();
            validate_before_backward();
            start_all();
        }
        for (std::size_t rank = 0; rank < grid_.size(); ++rank)
            ORRERY_CHECK(next_[rank] == grid_[rank].size(), "a schedule that cannot run");
        return std::move(rows_);
    }
    Timeline take_timeline() { return std::move(timeline_); }
    // The second actions of pairs.
    std::set<Action> take_beside() { return std::move(beside_); }

  private:
    // What must have ended before an action may start.
    bool ready(const Action& action) const {
        const std::int32_t stage = action.stage;
        const auto done = [&](std::int32_t of, ActionKind kind) {
            return done_[{of, kind, action.micro_batch}];
        };
        const auto gradient_done = [&](std::int32_t of) {
            return done(of, ActionKind::backward) || done(of, ActionKind::backward_input);
        };
        // Of the pieces of the vocabulary all ranks' are one: collectives tie them.
        const auto all_done = [&](std::int32_t first, ActionKind kind) {
            for (std::int32_t piece = 0; piece < placement_.pieces(); ++piece)
                if (!done(first + piece, kind)) return false;
            return true;
        };
        const bool shared = placement_.pieces() > 0;
        const std::int32_t last = placement_.stages() - 1;
        if (action.kind == ActionKind::forward) {
            if (!placement_.receives(stage)) return true;
            if (shared && stage == 0)
                return all_done(placement_.embedding_of(0), ActionKind::forward);
            return done(placement_.before(stage, 0), ActionKind::forward);
        }
        if (action.kind == ActionKind::backward_weight)
            return done(stage, ActionKind::backward_input);
        if (!done(stage, ActionKind::forward)) return false;
        if (shared && placement_.is_head(stage))
            return all_done(placement_.head_of(0), ActionKind::forward);
        if (!placement_.receives_gradient(stage)) return true;
        if (shared && stage == last) return all_done(placement_.head_of(0), ActionKind::backward);
        return gradient_done(placement_.after(stage, 0));
    }

    bool can_start(std::size_t rank) const {
        return busy_[rank] == 0 && next_[rank] < grid_[rank].size() &&
               ready(grid_[rank][next_[rank]]);
    }

    // Forward passes take one unit each, so that none is under way now.
    void validate_before_backward() {
        bool due = false;
        for (std::size_t rank = 0; to_validate_ && rank < grid_.size(); ++rank)
            due = due || (can_start(rank) && grid_[rank][next_[rank]].kind != ActionKind::forward);
        for (std::size_t rank = 0; due && rank < grid_.size(); ++rank)
            rows_[rank].push_back({static_cast<std::int32_t>(rank), ActionKind::validate, -1});
        to_validate_ = to_validate_ && !due;
    }

    bool is_piece(const Action& action) const { return action.stage >= placement_.stages(); }

    void start_all() {
        do {
            for (std::size_t rank = 0; rank < grid_.size(); ++rank)
                if (can_start(rank) && !is_piece(grid_[rank][next_[rank]])) start_next(rank);
        } while (start_pieces());
    }

    // Passes over pieces of the vocabulary take no time here. All ranks issue theirs at once,
    // behind what they run, so that collectives have the same place among transfers on every rank.
    bool start_pieces() {
        for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
            const std::size_t first = next_[rank] + busy_[rank] + ahead_[rank];
            if (first == grid_[rank].size() || !is_piece(grid_[rank][first]) ||
                !ready(grid_[rank][first]))
                return false;
        }
        for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
            const Action& action = grid_[rank][next_[rank] + busy_[rank] + ahead_[rank]];
            rows_[rank].push_back(action);
            timeline_[rank].push_back({action, now_, now_});
            done_[action] = true;
            ++(busy_[rank] > 0 ? ahead_ : next_)[rank];
        }
        return true;
    }

    void start_next(std::size_t rank) {
        const std::size_t together = begins_pair(rank) ? 2 : 1;
        std::int64_t end = now_;
        for (std::size_t i = 0; i < together; ++i)
            end += grid_[rank][next_[rank] + i].kind == ActionKind::backward ? 2 : 1;
        for (std::size_t i = 0; i < together; ++i) {
            const Action& action = grid_[rank][next_[rank] + i];
            rows_[rank].push_back(action);
            timeline_[rank].push_back({action, now_, end});
            if (i > 0) beside_.insert(action);
        }
        busy_[rank] = together;
        ending_.push({end, rank});
    }

    // Whether the next action, which can start, is a forward that the one behind it runs beside.
    bool begins_pair(std::size_t rank) const {
        if (!pairs_ || next_[rank] + 1 == grid_[rank].size()) return false;
        const Action& one = grid_[rank][next_[rank]];
        const Action& other = grid_[rank][next_[rank] + 1];
        return one.kind == ActionKind::forward && other.kind == ActionKind::backward &&
               one.micro_batch != other.micro_batch && ready(other);
    }

    void finish(std::size_t rank) {
        for (; busy_[rank] > 0; --busy_[rank])
            finish_one(rank);
        next_[rank] += std::exchange(ahead_[rank], 0);
    }

    void finish_one(std::size_t rank) {
        const Action action = grid_[rank][next_[rank]];
        ++next_[rank];
        done_[action] = true;
        const bool forward = action.kind == ActionKind::forward;
        if (!forward && !makes_input_gradient(action.kind)) return;
        // Pieces of the vocabulary hand on within their rank.
        const std::int32_t to = forward ? action.stage + 1 : action.stage - 1;
        if (to < 0 || std::max(to, action.stage) >= placement_.stages()) return;
        const auto peer = static_cast<std::size_t>(placement_.rank_of(to));
        if (peer == rank) return;
        transfers_.push_back(
            {0,
             turn(rank, peer),
             rank,
             peer,
             {action.stage, forward ? ActionKind::send_f : ActionKind::send_b, action.micro_batch},
             {to, forward ? ActionKind::recv_f : ActionKind::recv_b, action.micro_batch}});
    }

    // Of transfers that are due together, those between ranks 0 and 1, 2 and 3, … go first, then
    // those between 1 and 2, 3 and 4, …: else each rank of a ring would wait for the one before,
    // once around (Megatron-LM's even and odd ranks likewise send and receive in turn). An odd
    // ring closes in a third turn.
    int turn(std::size_t a, std::size_t b) const {
        const std::size_t ranks = grid_.size();
        const bool closes = ranks > 2 && std::min(a, b) == 0 && std::max(a, b) == ranks - 1;
        if (closes) return ranks % 2 == 0 ? 1 : 2;
        return std::min(a, b) % 2 == 0 ? 0 : 1;
    }

    // Actions of a rank from the one that it waits for or runs to the one that a receive is for.
    std::size_t actions_before(std::size_t rank, const Action& receive) const {
        const auto& row = grid_[rank];
        const bool forward = receive.kind == ActionKind::recv_f;
        std::size_t next = next_[rank];
        while (next < row.size() &&
               (row[next].stage != receive.stage || row[next].micro_batch != receive.micro_batch ||
                (forward ? row[next].kind != ActionKind::forward
                         : !makes_input_gradient(row[next].kind))))
            ++next;
        return next - next_[rank];
    }

    struct Due {
        std::size_t before = 0;
        int turn = 0;
        std::size_t from = 0;
        std::size_t to = 0;
        Action send;
        Action receive;
    };

    // Halves of backward take as long as forwards here: much comes due together that does not where
    // they take what they take. What a rank needs first goes first, and waits for nothing else.
    void issue_transfers() {
        if (halves_)
            for (Due& due : transfers_)
                due.before = actions_before(due.to, due.receive);
        std::stable_sort(transfers_.begin(), transfers_.end(), [](const Due& a, const Due& b) {
            return std::tuple(a.before, a.turn, std::min(a.from, a.to)) <
                   std::tuple(b.before, b.turn, std::min(b.from, b.to));
        });
        for (const Due& due : transfers_) {
            rows_[due.from].push_back(due.send);
            rows_[due.to].push_back(due.receive);
        }
        transfers_.clear();
    }

    using Ending = std::pair<std::int64_t, std::size_t>;
    const ActionGrid& grid_;
    const StagePlacement& placement_;
    bool to_validate_ = false;
    bool pairs_ = false;
    bool halves_ = false;  // whether backward runs in halves
    std::int64_t now_ = 0;
    Rows rows_;
    Timeline timeline_;
    std::vector<std::size_t> next_;
    std::vector<std::size_t> busy_;   // actions that run
    std::vector<std::size_t> ahead_;  // passes over pieces that are issued behind them
    ByAction<bool> done_;
    std::set<Action> beside_;
    std::vector<Due> transfers_;  // of actions that end now
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ending_;
};

// The pipeline rank on the other side of a transfer.
std::int32_t other_side(const Action& action, const StagePlacement& placement) {
    return placement.rank_of(action.stage + hop_to_peer(action.kind));
}

// The same transfer as the other side spells it.
Action mirrored(const Action& action) {
    switch (action.kind) {
        case ActionKind::send_f:
            return {action.stage + 1, ActionKind::recv_f, action.micro_batch};
        case ActionKind::recv_f:
            return {action.stage - 1, ActionKind::send_f, action.micro_batch};
        case ActionKind::send_b:
            return {action.stage - 1, ActionKind::recv_b, action.micro_batch};
        case ActionKind::recv_b:
            return {action.stage + 1, ActionKind::send_b, action.micro_batch};
        default:
            ORRERY_CHECK(false, "not a transfer");
    }
    return action;
}

bool opposite(const Action& a, const Action& b, const StagePlacement& placement) {
    return is_transfer(a.kind) && is_transfer(b.kind) && is_send(a.kind) != is_send(b.kind) &&
           other_side(a, placement) == other_side(b, placement);
}

}  // namespace

Timeline unit_timeline(const Schedule& schedule) {
    UnitRun run(schedule.grid, schedule.placement);
    run.run();
    return run.take_timeline();
}

std::vector<std::vector<LoweredStep>> add_transfers(const ActionGrid& grid,
                                                    const StagePlacement& placement, bool validates,
                                                    bool pairs) {
    UnitRun run(grid, placement, validates, pairs);
    const Rows rows = run.run();
    const std::set<Action> beside = run.take_beside();
    constexpr std::int32_t kNone = -2;                        // is beside no place
    ByAction<std::int32_t> place_of(grid, placement, kNone);  // of transfers, in their rows
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            if (is_transfer(row[i].kind)) place_of[row[i]] = static_cast<std::int32_t>(i);

    // Of transfers: whether they are in an exchange, and whether they are the first of it.
    ByAction<bool> taken(grid, placement, false), leads(grid, placement, false);
    for (const auto& row : rows) {
        for (std::size_t i = 0; i + 1 < row.size(); ++i) {
            const Action &a = row[i], &b = row[i + 1];
            if (!opposite(a, b, placement) || taken[a] || taken[b]) continue;
            const Action theirs = mirrored(a), other = mirrored(b);
            const std::int32_t apart = place_of[other] - place_of[theirs];
            if (std::abs(apart) != 1) continue;
            for (const Action& one : {a, b, theirs, other})
                taken[one] = true;
            leads[a] = true;
            leads[apart == 1 ? theirs : other] = true;
        }
    }
    std::vector<std::vector<LoweredStep>> lowered(rows.size());
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        const auto& row = rows[rank];
        lowered[rank].reserve(row.size());
        for (std::size_t i = 0; i < row.size(); ++i) {
            LoweredStep& step = lowered[rank].emplace_back();
            step.action = row[i];
            step.beside_last = beside.count(row[i]) > 0;
            if (!is_transfer(row[i].kind) || !leads[row[i]]) continue;
            step.with = row[++i];
            if (!is_send(step.action.kind)) std::swap(step.action, *step.with);
        }
    }
    return lowered;
}

}  // namespace orrery::plan
