// The passes of several steps that are walked side by side: what a walk takes its times from.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/search/four.hpp"
#include "sim/search/schedule_pace.hpp"

namespace orrery::sim {

// What a pass that waits for nothing has waited for: without a branch in a walk's loop, which
// takes most of what pricing a layout does. Beside it any time is nothing.
inline constexpr double kLongAgo = -1e300;

// A pass in each of several steps.
template <typename Seconds>
struct Pass {
    Seconds lead{}, tail{}, slowed{}, gathers{}, gathers_on{};
    std::array<Seconds, 2> busy{};  // and right after transfers
    Seconds asks{};  // since what its rank told others: long ago, where it asks before that

    void set(std::size_t lane, const PassTimes& times, bool waits) {
        set_lane(lead, lane, waits ? times.lead : kLongAgo);
        set_lane(asks, lane, waits && times.lead > 0 ? 0 : kLongAgo);
        set_lane(busy[0], lane, times.busy);
        set_lane(busy[1], lane, times.busy + times.launched);
        set_lane(tail, lane, times.tail);
        set_lane(slowed, lane, times.slowed);
        set_lane(gathers, lane, times.gathers > 0 ? times.gathers : kLongAgo);
        set_lane(gathers_on, lane, times.gathers_on);
    }
};

// The passes of several steps over the same stages: what is alike is there once, and stays in reach
// of the walk.
template <typename Seconds>
struct Passes {
    std::vector<Pass<Seconds>> rows;
    std::vector<std::int32_t> row_of;  // by stage and pass

    explicit Passes(std::span<const PipelinePace* const> paces) {
        std::array<std::size_t, kLanes<Seconds>> run{};
        std::array<std::int64_t, kLanes<Seconds>> left{};
        const auto used = static_cast<std::ptrdiff_t>(paces.size());
        for (std::size_t i = 0; i < paces.size(); ++i)
            left[i] = paces[i]->runs.front().stages;
        for (bool first = true; run[0] < paces[0]->runs.size(); first = false) {
            // The first stage's forward pass waits for nothing.
            const std::int64_t stages =
                first ? 1 : *std::min_element(left.begin(), left.begin() + used);
            const auto row = static_cast<std::int32_t>(rows.size());
            for (std::size_t pass = 0; pass < kPassesOfStage; ++pass) {
                const bool waits =
                    pass != static_cast<std::size_t>(plan::ActionKind::backward_weight) &&
                    !(first && pass == 0);
                Pass<Seconds>& added = rows.emplace_back();
                for (std::size_t i = 0; i < paces.size(); ++i)
                    added.set(i, paces[i]->runs[run[i]].passes[pass], waits);
            }
            for (std::int64_t stage = 0; stage < stages; ++stage)
                row_of.insert(row_of.end(), {row, row + 1, row + 2, row + 3});
            for (std::size_t i = 0; i < paces.size(); ++i) {
                left[i] -= stages;
                if (left[i] == 0 && ++run[i] < paces[i]->runs.size())
                    left[i] = paces[i]->runs[run[i]].stages;
            }
        }
    }
};

}  // namespace orrery::sim
