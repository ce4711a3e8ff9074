// The rules of a written grid. Each is checked on its own, so that all that is wrong is said at
// once; whether ranks wait for each other in a ring only where nothing else is wrong.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "plan/schedule/written_grid.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kMostNamed = 4;  // of what is missing

using Key = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch

// What a stage ran so far of a micro-batch, and where.
struct Passes {
    const WrittenAction* forward = nullptr;
    const WrittenAction* whole = nullptr;  // B
    const WrittenAction* input = nullptr;
    const WrittenAction* weight = nullptr;

    const WrittenAction*& of(ActionKind kind) {
        if (kind == ActionKind::forward) return forward;
        if (kind == ActionKind::backward) return whole;
        return kind == ActionKind::backward_input ? input : weight;
    }
    const WrittenAction* gradient() const { return whole != nullptr ? whole : input; }
};

class Rules {
  public:
    // `whole`: no cell was left out because nobody could read it.
    Rules(const WrittenGrid& grid, bool whole) : grid_(grid), whole_(whole) {}

    std::vector<GridFault> check(StagePlacement& placement, std::int32_t& micro_batches) {
        settle_shape();
        find_owners();
        for (const auto& row : grid_.actions)
            for (const WrittenAction& action : row)
                if (is_compute(action.action.kind)) check_compute(action);
        check_order_on_ranks();
        check_transfers();
        if (whole_) check_complete();
        if (whole_ && faults_.empty()) check_waiting();
        if (faults_.empty()) {
            placement = StagePlacement(owner_);
            micro_batches = micro_batches_;
        }
        return std::move(faults_);
    }

  private:
    // What counts as a stage, and as a micro-batch: a number that runs at least half as often as
    // the most frequent one does. One beyond those is a slip, not a further stage that nearly
    // nobody runs.
    static std::int32_t usual(const std::map<std::int32_t, std::size_t>& runs) {
        std::size_t most = 0;
        for (const auto& [number, times] : runs)
            most = std::max(most, times);
        std::int32_t last = -1;
        for (const auto& [number, times] : runs)
            if (2 * times >= most) last = number;
        const auto room = static_cast<std::int64_t>(2 * runs.size());
        return static_cast<std::int32_t>(std::min(std::int64_t{last} + 1, room));
    }

    void settle_shape() {
        std::map<std::int32_t, std::size_t> stages, micro_batches;
        for (const auto& row : grid_.actions)
            for (const WrittenAction& written : row) {
                if (!is_compute(written.action.kind)) continue;
                ++stages[written.action.stage];
                ++micro_batches[written.action.micro_batch];
            }
        stages_ = usual(stages);
        micro_batches_ = usual(micro_batches);
        if (stages_ == 0 && whole_) add(nullptr, "a grid without actions");
        for (std::size_t rank = 0; rank < grid_.actions.size(); ++rank)
            if (whole_ && grid_.actions[rank].empty() && stages_ > 0)
                faults_.push_back(grid_.fault_at(static_cast<std::int32_t>(rank), 0,
                                                 fmt::format("rank {} runs nothing", rank)));
    }

    bool in_shape(const Action& action) const {
        return action.stage < stages_ && action.micro_batch < micro_batches_;
    }

    // A stage is where most of its actions are.
    void find_owners() {
        std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> runs;  // by stage and rank
        for (const auto& row : grid_.actions)
            for (const WrittenAction& written : row)
                if (is_compute(written.action.kind) && written.action.stage < stages_)
                    ++runs[{written.action.stage, written.rank}];
        owner_.assign(static_cast<std::size_t>(stages_), -1);
        std::vector<std::size_t> most(owner_.size(), 0);
        for (const auto& [place, times] : runs) {
            const auto stage = static_cast<std::size_t>(place.first);
            if (times <= most[stage]) continue;
            most[stage] = times;
            owner_[stage] = place.second;
        }
        for (std::int32_t stage = 0; stage < stages_; ++stage)
            if (owner_[static_cast<std::size_t>(stage)] < 0)
                add(nullptr, fmt::format("no rank runs stage {} of the {}", stage, stages_));
    }

    // Where one micro-batch of one stage stands on its own row.
    void check_compute(const WrittenAction& written) {
        const Action& action = written.action;
        const std::string text = to_text(action);
        if (action.stage >= stages_)
            return add(&written, fmt::format("{}: there is no stage {}, the others run 0 to {}",
                                             text, action.stage, stages_ - 1));
        if (action.micro_batch >= micro_batches_)
            return add(&written,
                       fmt::format("{}: there is no micro-batch {}, the other stages run 0 to {}",
                                   text, action.micro_batch, micro_batches_ - 1));
        const std::int32_t owner = owner_[static_cast<std::size_t>(action.stage)];
        if (owner != written.rank)
            return add(&written, fmt::format("{} on rank {}: stage {} is on rank {}", text,
                                             written.rank, action.stage, owner));
        Passes& passes = passes_[{action.stage, action.micro_batch}];
        if (passes.of(action.kind) != nullptr)
            return add(&written, fmt::format("{} a second time", text));
        passes.of(action.kind) = &written;
        if (passes.whole != nullptr && (passes.input != nullptr || passes.weight != nullptr))
            add(&written,
                fmt::format("{}: the backward of a micro-batch is B, or I and W, not both", text));
        check_ascending(written);
    }

    // Gradients of all micro-batches are summed in one order, whatever the schedule; so are losses.
    void check_ascending(const WrittenAction& written) {
        const Action& action = written.action;
        bool said = false;  // B is in two sums
        const auto after = [&](std::size_t sum, const char* what) {
            const WrittenAction*& last = last_[{action.stage, sum}];
            if (!said && last != nullptr && last->action.micro_batch > action.micro_batch) {
                add(&written, fmt::format("{} after {}: a stage runs its {} in ascending order of "
                                          "micro-batches",
                                          to_text(action), to_text(last->action), what));
                said = true;
            }
            last = &written;
        };
        if (action.kind == ActionKind::forward) after(0, "forwards");
        if (makes_input_gradient(action.kind)) after(1, "backwards");
        if (ends_micro_batch(action.kind)) after(2, "weight gradients");
    }

    // Every stage runs every micro-batch forward and backward.
    void check_complete() {
        for (std::int32_t stage = 0; stage < stages_; ++stage) {
            const std::int32_t owner = owner_[static_cast<std::size_t>(stage)];
            if (owner < 0) continue;
            std::vector<Action> missing;
            for (std::int32_t k = 0; k < micro_batches_ && missing.size() <= kMostNamed; ++k) {
                const Passes& passes = passes_[{stage, k}];
                if (passes.forward == nullptr) missing.push_back({stage, ActionKind::forward, k});
                if (passes.whole != nullptr) continue;
                const bool split = passes.input != nullptr || passes.weight != nullptr;
                if (!split) missing.push_back({stage, ActionKind::backward, k});
                if (split && passes.input == nullptr)
                    missing.push_back({stage, ActionKind::backward_input, k});
                if (split && passes.weight == nullptr)
                    missing.push_back({stage, ActionKind::backward_weight, k});
            }
            if (missing.empty()) continue;
            std::string list;
            for (std::size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i)
                list += (i > 0 ? ", " : "") + to_text(missing[i]);
            if (missing.size() > kMostNamed) list += ", …";
            const auto cells = grid_.cells[static_cast<std::size_t>(owner)].size();
            faults_.push_back(grid_.fault_at(owner, static_cast<std::int32_t>(cells) - 1,
                                             fmt::format("rank {} ends without {}", owner, list)));
        }
    }

    // What an action waits for stands before it, where both are on one rank.
    void check_order_on_ranks() {
        for (const auto& [key, passes] : passes_) {
            check_order(passes.forward, passes.gradient());
            check_order(passes.input, passes.weight);
            const auto other = passes_.find({key.first + 1, key.second});
            if (other == passes_.end()) continue;
            const Passes& next = other->second;
            check_order(passes.forward, next.forward);
            check_order(next.gradient(), passes.gradient());
        }
    }

    void check_order(const WrittenAction* first, const WrittenAction* second) {
        if (first == nullptr || second == nullptr || first->rank != second->rank) return;
        if (first < second) return;  // both in the vector of their row
        add(second, fmt::format("{} before {}, whose result it needs", to_text(second->action),
                                to_text(first->action)));
    }

    // Transfers are lowering's own; those that are written must be ones that it would make.
    void check_transfers() {
        std::set<Action> written_so_far;
        for (const auto& row : grid_.actions)
            for (const WrittenAction& written : row)
                if (is_transfer(written.action.kind)) check_transfer(written, written_so_far);
    }

    void check_transfer(const WrittenAction& written, std::set<Action>& so_far) {
        const Action& action = written.action;
        const std::string text = to_text(action);
        if (!so_far.insert(action).second)
            return add(&written, fmt::format("{} a second time", text));
        const bool forward = action.kind == ActionKind::send_f || action.kind == ActionKind::recv_f;
        const std::int32_t peer = action.stage + (forward == is_send(action.kind) ? 1 : -1);
        if (!in_shape(action) || peer < 0 || peer >= stages_)
            return add(&written,
                       fmt::format("{}: stages 0 to {} have no such transfer", text, stages_ - 1));
        const std::int32_t owner = owner_[static_cast<std::size_t>(action.stage)];
        if (owner != written.rank)
            return add(&written, fmt::format("{} on rank {}: stage {} is on rank {}", text,
                                             written.rank, action.stage, owner));
        if (owner == owner_[static_cast<std::size_t>(peer)])
            return add(&written,
                       fmt::format("{}: stages {} and {} are on one rank, between them nothing is "
                                   "sent",
                                   text, action.stage, peer));
        const Passes& passes = passes_[{action.stage, action.micro_batch}];
        const WrittenAction* compute = forward ? passes.forward : passes.gradient();
        if (compute == nullptr) return;  // reported as missing
        if (is_send(action.kind) != (compute < &written))
            add(&written, fmt::format("{} {} {}", text, is_send(action.kind) ? "before" : "after",
                                      to_text(compute->action)));
    }

    void check_waiting() {
        const std::vector<WrittenAction> cycle = waiting_cycle(grid_, stages_);
        if (cycle.empty()) return;
        constexpr std::size_t kMostLinks = 6;
        std::string chain;
        for (std::size_t i = 0; i < cycle.size(); i += 2) {
            if (i == 2 * kMostLinks) {
                chain += "; …";
                break;
            }
            const WrittenAction& needed = cycle[i + 1];
            const WrittenAction& before = cycle[(i + 2) % cycle.size()];
            chain += fmt::format("{}{} waits for {}", chain.empty() ? "" : "; ",
                                 to_text(cycle[i].action), to_text(needed.action));
            if (needed.action != before.action)
                chain += fmt::format(", which rank {} runs after {}", needed.rank,
                                     to_text(before.action));
        }
        add(&cycle.front(), "the ranks wait for each other: " + chain);
    }

    void add(const WrittenAction* written, std::string message) {
        if (written != nullptr) {
            faults_.push_back(grid_.fault_at(*written, std::move(message)));
            return;
        }
        faults_.emplace_back();
        faults_.back().message = std::move(message);
    }

    const WrittenGrid& grid_;
    bool whole_;
    std::int32_t stages_ = 0;
    std::int32_t micro_batches_ = 0;
    std::vector<std::int32_t> owner_;  // by stage, −1: nobody
    std::map<Key, Passes> passes_;
    std::map<std::pair<std::int32_t, std::size_t>, const WrittenAction*> last_;  // by stage and sum
    std::vector<GridFault> faults_;
};

}  // namespace

std::vector<GridFault> grid_faults(const WrittenGrid& grid, bool whole, StagePlacement& placement,
                                   std::int32_t& micro_batches) {
    return Rules(grid, whole).check(placement, micro_batches);
}

}  // namespace orrery::plan
