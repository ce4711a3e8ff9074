// A grid run in time, apart from the one that lowering makes: when each rank begins and ends where
// F, I and W of every chunk take these units, B what I and W take together, and transfers none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

struct Units {
    std::int64_t forward = 1;
    std::int64_t input = 1;
    std::int64_t weight = 1;

    std::int64_t of(ActionKind kind) const {
        if (kind == ActionKind::forward) return forward;
        if (kind == ActionKind::backward) return input + weight;
        return kind == ActionKind::backward_input ? input : weight;
    }
    std::int64_t all() const { return forward + input + weight; }
};

struct TimedRun {
    std::vector<std::int64_t> begin, end;  // by rank
    std::int64_t makespan() const { return *std::max_element(end.begin(), end.end()); }
    // Longest time that a rank takes from its own first action to its last.
    std::int64_t longest() const {
        std::int64_t most = 0;
        for (std::size_t rank = 0; rank < end.size(); ++rank)
            most = std::max(most, end[rank] - begin[rank]);
        return most;
    }
};

class TimedGrid {
  public:
    TimedGrid(const ActionGrid& grid, std::int32_t stages, std::int32_t micro_batches)
        : grid_(grid), stages_(stages), micro_batches_(micro_batches) {}

    // Each rank goes on as far as it can, in turn, until all have ended.
    TimedRun run(const Units& units) {
        for (auto& ends : ends_)
            ends.assign(
                static_cast<std::size_t>(stages_) * static_cast<std::size_t>(micro_batches_),
                kNotYet);
        TimedRun run;
        run.begin.assign(grid_.size(), kNotYet);
        run.end.assign(grid_.size(), 0);
        std::vector<std::size_t> next(grid_.size(), 0);
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t rank = 0; rank < grid_.size(); ++rank)
                for (; next[rank] < grid_[rank].size(); ++next[rank], progress = true) {
                    const Action& action = grid_[rank][next[rank]];
                    const std::int64_t ready = ready_at(action);
                    if (ready == kNotYet) break;
                    const std::int64_t start = std::max(run.end[rank], ready);
                    if (next[rank] == 0) run.begin[rank] = start;
                    run.end[rank] = start + units.of(action.kind);
                    settle(action, run.end[rank]);
                }
        }
        for (std::size_t rank = 0; rank < grid_.size(); ++rank)
            EXPECT_EQ(next[rank], grid_[rank].size()) << "rank " << rank << " is stuck";
        return run;
    }

  private:
    static constexpr std::int64_t kNotYet = -1;
    enum Pass { kForward, kInput, kWeight };

    std::int64_t& end(Pass pass, std::int32_t stage, std::int32_t k) {
        return ends_[static_cast<std::size_t>(pass)]
                    [static_cast<std::size_t>(stage * micro_batches_ + k)];
    }

    std::int64_t ready_at(const Action& action) {
        const std::int32_t s = action.stage, k = action.micro_batch;
        if (action.kind == ActionKind::forward) return s == 0 ? 0 : end(kForward, s - 1, k);
        if (action.kind == ActionKind::backward_weight) return end(kInput, s, k);
        if (end(kForward, s, k) == kNotYet || s == stages_ - 1) return end(kForward, s, k);
        if (end(kInput, s + 1, k) == kNotYet) return kNotYet;
        return std::max(end(kForward, s, k), end(kInput, s + 1, k));
    }

    void settle(const Action& action, std::int64_t at) {
        const auto once = [&](Pass pass) {
            EXPECT_EQ(end(pass, action.stage, action.micro_batch), kNotYet) << to_text(action);
            end(pass, action.stage, action.micro_batch) = at;
        };
        if (action.kind == ActionKind::forward) once(kForward);
        if (makes_input_gradient(action.kind)) once(kInput);
        if (ends_micro_batch(action.kind)) once(kWeight);
    }

    const ActionGrid& grid_;
    std::int32_t stages_;
    std::int32_t micro_batches_;
    std::array<std::vector<std::int64_t>, 3> ends_;  // by pass, then stage and micro-batch
};

}  // namespace orrery::plan
