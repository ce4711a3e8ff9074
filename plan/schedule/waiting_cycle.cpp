// Runs a grid of compute actions as far as it goes; where that is not to its end, some ranks wait
// for each other in a ring.
#include <algorithm>
#include <map>
#include <set>

#include "plan/schedule/written_grid.hpp"

namespace orrery::plan {
namespace {

using Row = std::vector<const WrittenAction*>;

class Waiting {
  public:
    Waiting(const WrittenGrid& grid, std::int32_t stages) : stages_(stages) {
        for (const auto& row : grid.actions) {
            rows_.emplace_back();
            for (const WrittenAction& written : row) {
                if (!is_compute(written.action.kind)) continue;
                place_[result_of(written.action)] = &written;
                rows_.back().push_back(&written);
            }
        }
        next_.assign(rows_.size(), 0);
    }

    std::vector<WrittenAction> cycle() {
        run();
        std::size_t rank = 0;
        while (rank < rows_.size() && next_[rank] == rows_[rank].size())
            ++rank;
        if (rank == rows_.size()) return {};
        // From a stuck rank to the one that it waits for, until one comes again.
        std::vector<WrittenAction> chain;
        std::map<std::size_t, std::size_t> seen;  // where in the chain a rank's next action stands
        for (;;) {
            const auto [at, fresh] = seen.emplace(rank, chain.size());
            if (!fresh) {
                chain.erase(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(at->second));
                return chain;
            }
            const WrittenAction& stuck = *rows_[rank][next_[rank]];
            const WrittenAction& needed = *place_.at(missing(stuck.action));
            chain.push_back(stuck);
            chain.push_back(needed);
            rank = static_cast<std::size_t>(needed.rank);
        }
    }

  private:
    // B and I make the same: the gradient that the stage before waits for.
    static Action result_of(Action action) {
        if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
        return action;
    }

    // Of what an action waits for, something that has not run; or the action itself.
    Action missing(const Action& action) const {
        const auto left = [&](std::int32_t stage, ActionKind kind) {
            return stage >= 0 && stage < stages_ &&
                   done_.count({stage, kind, action.micro_batch}) == 0;
        };
        if (action.kind == ActionKind::forward) {
            if (left(action.stage - 1, ActionKind::forward))
                return {action.stage - 1, ActionKind::forward, action.micro_batch};
        } else if (makes_input_gradient(action.kind)) {
            if (left(action.stage + 1, ActionKind::backward_input))
                return {action.stage + 1, ActionKind::backward_input, action.micro_batch};
        }
        return action;
    }

    void run() {
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t rank = 0; rank < rows_.size(); ++rank)
                for (; next_[rank] < rows_[rank].size(); ++next_[rank], progress = true) {
                    const Action& action = rows_[rank][next_[rank]]->action;
                    if (missing(action) != action) break;
                    done_.insert(result_of(action));
                }
        }
    }

    std::int32_t stages_;
    std::vector<Row> rows_;
    std::vector<std::size_t> next_;                 // by rank
    std::map<Action, const WrittenAction*> place_;  // by result
    std::set<Action> done_;                         // results
};

}  // namespace

std::vector<WrittenAction> waiting_cycle(const WrittenGrid& grid, std::int32_t stages) {
    return Waiting(grid, stages).cycle();
}

}  // namespace orrery::plan
