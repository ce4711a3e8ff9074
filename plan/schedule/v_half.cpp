// V-Half (Qi et al. 2024, arXiv 2405.15362): two chunks per rank in a V, in flight at most ⌊p/2⌋ +
// 1 times what one 1F1B micro-batch keeps on a rank: half of what rank 0 of 1F1B holds.
//
// The paper's building block says when, in units of F = I = W, each rank would run the two forwards
// and the two input gradients of one micro-batch; a block starts every 6 units, and weight
// gradients fill the gaps. The first and the last blocks leave units empty. The paper moves passes
// into them by search; here each rank, unit by unit, takes what the blocks would run first of what
// can run now, its forwards in the order of the blocks and never more in flight than the blocks
// have. That order exists: of the passes not yet run, the one that the blocks run first has all it
// waits for, and once no weight gradient is owed, its rank holds no more than the blocks did.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "plan/check.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

constexpr std::int32_t kPeriod = 6;  // units of one micro-batch on one rank
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Unit in which a rank runs each pass of micro-batch 0.
struct BuildingBlock {
    std::array<std::int32_t, 2> forward;  // by chunk
    std::array<std::int32_t, 2> input;
};

BuildingBlock block_of(std::int32_t p, std::int32_t rank) {
    const std::int32_t turn = p % 2 == 0 ? 3 : 0;  // else two passes would fall on one unit
    return {{2 * rank, 3 * p - rank - 2}, {6 * p + turn - rank - 2, 3 * p + turn + 2 * rank - 1}};
}

class Squeeze {
  public:
    explicit Squeeze(const ScheduleShape& shape)
        : p_(shape.pipeline),
          m_(shape.micro_batches),
          most_in_flight_(p_ + (p_ % 2 == 0 ? 2 : 1)),
          ranks_(static_cast<std::size_t>(p_)),
          forward_ends_(static_cast<std::size_t>(2 * p_ * m_), kNever),
          input_ends_(forward_ends_) {
        for (std::int32_t rank = 0; rank < p_; ++rank)
            ranks_[static_cast<std::size_t>(rank)].block = block_of(p_, rank);
    }

    ActionGrid run() {
        std::int64_t left = std::int64_t{6} * p_ * m_;
        // A pass that can run runs; see above for why one always can.
        for (now_ = 0; left > 0; ++now_) {
            ORRERY_CHECK(now_ < std::int64_t{kPeriod} * (m_ + 2 * p_), "a squeeze without end");
            for (std::int32_t rank = 0; rank < p_; ++rank)
                if (const std::optional<Action> action = next(rank)) {
                    take(rank, *action);
                    --left;
                }
        }
        ActionGrid grid;
        for (Rank& rank : ranks_)
            grid.push_back(std::move(rank.row));
        return grid;
    }

  private:
    struct Rank {
        BuildingBlock block{};
        std::array<std::int32_t, 2> forwards{};  // begun, by chunk
        std::array<std::int32_t, 2> inputs{};
        std::int32_t in_flight = 0;  // chunks
        std::size_t owed = 0;        // first action of the row whose weight gradient is missing
        std::vector<Action> row;
    };

    std::int32_t stage(std::int32_t rank, std::size_t chunk) const {
        return chunk == 0 ? rank : 2 * p_ - 1 - rank;
    }
    std::size_t at(std::int32_t stage, std::int32_t micro_batch) const {
        return static_cast<std::size_t>(stage * m_ + micro_batch);
    }

    bool can_forward(const Rank& rank, std::int32_t stage, std::int32_t k) const {
        return rank.in_flight < most_in_flight_ &&
               (stage == 0 || forward_ends_[at(stage - 1, k)] <= now_);
    }
    bool can_input(std::int32_t stage, std::int32_t k) const {
        return forward_ends_[at(stage, k)] <= now_ &&
               (stage == 2 * p_ - 1 || input_ends_[at(stage + 1, k)] <= now_);
    }

    // What the blocks run first, of what can run in this unit.
    std::optional<Action> next(std::int32_t r) const {
        const Rank& rank = ranks_[static_cast<std::size_t>(r)];
        std::optional<Action> best;
        std::int32_t unit = std::numeric_limits<std::int32_t>::max();
        const auto offer = [&](const Action& action, std::int32_t planned) {
            if (planned >= unit) return;
            best = action;
            unit = planned;
        };
        for (std::size_t chunk = 0; chunk < 2; ++chunk) {
            const std::int32_t k = rank.inputs[chunk];
            if (k < m_ && can_input(stage(r, chunk), k))
                offer({stage(r, chunk), ActionKind::backward_input, k},
                      rank.block.input[chunk] + kPeriod * k);
        }
        if (const std::optional<std::size_t> chunk = forward_chunk(rank)) {
            const std::int32_t k = rank.forwards[*chunk];
            if (can_forward(rank, stage(r, *chunk), k))
                offer({stage(r, *chunk), ActionKind::forward, k},
                      rank.block.forward[*chunk] + kPeriod * k);
        }
        if (!best) best = owed_weight(rank);
        return best;
    }

    // The chunk whose forward comes next in the order of the blocks.
    std::optional<std::size_t> forward_chunk(const Rank& rank) const {
        const auto planned = [&](std::size_t chunk) {
            return rank.block.forward[chunk] + kPeriod * rank.forwards[chunk];
        };
        if (rank.forwards[0] == m_ && rank.forwards[1] == m_) return std::nullopt;
        if (rank.forwards[0] == m_) return 1;
        return rank.forwards[1] < m_ && planned(1) < planned(0) ? 1 : 0;
    }

    std::optional<Action> owed_weight(const Rank& rank) const {
        if (rank.owed == rank.row.size()) return std::nullopt;
        const Action& input = rank.row[rank.owed];
        return Action{input.stage, ActionKind::backward_weight, input.micro_batch};
    }

    void take(std::int32_t r, const Action& action) {
        Rank& rank = ranks_[static_cast<std::size_t>(r)];
        const std::size_t chunk = action.stage < p_ ? 0 : 1;
        rank.row.push_back(action);
        switch (action.kind) {
            case ActionKind::forward:
                ++rank.forwards[chunk];
                ++rank.in_flight;
                forward_ends_[at(action.stage, action.micro_batch)] = now_ + 1;
                break;
            case ActionKind::backward_input:
                ++rank.inputs[chunk];
                input_ends_[at(action.stage, action.micro_batch)] = now_ + 1;
                break;
            default:
                ++rank.owed;
                --rank.in_flight;
        }
        while (rank.owed < rank.row.size() &&
               rank.row[rank.owed].kind != ActionKind::backward_input)
            ++rank.owed;
    }

    std::int32_t p_;
    std::int32_t m_;
    std::int32_t most_in_flight_;  // chunks
    std::int64_t now_ = 0;
    std::vector<Rank> ranks_;
    std::vector<std::int64_t> forward_ends_;  // by stage and micro-batch
    std::vector<std::int64_t> input_ends_;
};

}  // namespace

ActionGrid v_half(const ScheduleShape& shape) {
    return Squeeze(shape).run();
}

// The blocks as they repeat, not squeezed: where passes over a vocabulary tie all ranks, those that
// fill a gap on one rank would hold up the others. A weight gradient takes the first unit behind
// its other half that no block has a pass for.
Timeline v_half_later(const ScheduleShape& shape, std::int32_t periods) {
    Timeline timeline;
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        const BuildingBlock block = block_of(shape.pipeline, rank);
        std::array<bool, kPeriod> taken{};
        const auto take = [&](std::int32_t unit) {
            while (taken[static_cast<std::size_t>(unit % kPeriod)])
                ++unit;
            taken[static_cast<std::size_t>(unit % kPeriod)] = true;
            return unit;
        };
        std::array<std::int32_t, 2> forward{}, input{}, weight{};
        for (std::size_t chunk = 0; chunk < 2; ++chunk) {
            forward[chunk] = take(block.forward[chunk]);
            input[chunk] = take(block.input[chunk]) + periods * kPeriod;
        }
        for (std::size_t chunk = 0; chunk < 2; ++chunk)
            weight[chunk] = take(input[chunk] + 1);
        auto& row = timeline.emplace_back();
        for (std::int32_t k = 0; k < shape.micro_batches; ++k)
            for (std::size_t chunk = 0; chunk < 2; ++chunk) {
                const std::int32_t stage = chunk == 0 ? rank : 2 * shape.pipeline - 1 - rank;
                const auto add = [&](ActionKind kind, std::int32_t unit) {
                    const std::int64_t begin = unit + std::int64_t{kPeriod} * k;
                    row.push_back({{stage, kind, k}, begin, begin + 1});
                };
                add(ActionKind::forward, forward[chunk]);
                add(ActionKind::backward_input, input[chunk]);
                add(ActionKind::backward_weight, weight[chunk]);
            }
    }
    return timeline;
}

}  // namespace orrery::plan
