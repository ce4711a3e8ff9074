// Schedules whose backward runs in two halves, against what their papers say of the bubble and of
// the memory (Qi et al. 2024, arXiv 2401.10241; Qi et al. 2024, arXiv 2405.15362; DeepSeek's
// DualPipeV), for p ≤ 32 and m ≤ 128.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/plan/schedule/timed_run.hpp"
#include "tests/sanitized.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Action;
using plan::ActionGrid;
using plan::ActionKind;
using plan::ScheduleShape;
using plan::TimedGrid;
using plan::TimedRun;
using plan::Units;

const std::int32_t kMostRanks = sanitized() ? 8 : 32;
constexpr std::int32_t kMostMicroBatches = 128;

TimedRun timed(const ActionGrid& grid, const ScheduleShape& shape, const Units& units = {}) {
    return TimedGrid(grid, shape.pipeline * shape.virtual_stages, shape.micro_batches).run(units);
}

// Every m ≤ 128 where a pipeline is short or m near what fills it, else a few.
std::set<std::int32_t> micro_batches(std::int32_t p, std::int32_t least) {
    std::set<std::int32_t> all;
    for (std::int32_t m = least; m <= kMostMicroBatches; ++m)
        if (p <= 8 || m <= 3 || (m >= 2 * p - 3 && m <= 2 * p + 3) || m % 16 == 0 ||
            m % 31 == p % 31)
            all.insert(m);
    return all;
}

void for_all(std::int32_t chunks, std::int32_t (*least)(std::int32_t),
             void (*expect)(const ScheduleShape&)) {
    for (std::int32_t p = 1; p <= kMostRanks; ++p)
        for (const std::int32_t m : micro_batches(p, least(p))) {
            expect({p, chunks, m});
            if (testing::Test::HasFailure()) {
                ADD_FAILURE() << "p " << p << " m " << m;
                return;
            }
        }
}

void for_all(std::int32_t chunks, void (*expect)(const ScheduleShape&)) {
    for_all(
        chunks, [](std::int32_t) { return 1; }, expect);
}

// Each stage runs F, then B or I and W, of all micro-batches, and each kind in ascending order:
// gradients are summed in the same order by every schedule.
void expect_canonical(const ActionGrid& grid, const ScheduleShape& shape) {
    for (const auto& row : grid) {
        std::map<std::int32_t, std::array<std::int32_t, 3>> next;  // by stage: F, B or I, B or W
        for (const Action& action : row) {
            auto& [forward, input, weight] = next[action.stage];
            if (action.kind == ActionKind::forward) {
                EXPECT_EQ(action.micro_batch, forward++);
            }
            if (makes_input_gradient(action.kind)) {
                EXPECT_EQ(action.micro_batch, input++);
            }
            if (ends_micro_batch(action.kind)) {
                EXPECT_EQ(action.micro_batch, weight++);
            }
            EXPECT_LE(input, forward);
            EXPECT_LE(weight, input);
        }
        EXPECT_EQ(next.size(), static_cast<std::size_t>(shape.virtual_stages));
        for (const auto& [stage, count] : next)
            for (const std::int32_t passes : count)
                EXPECT_EQ(passes, shape.micro_batches) << "stage " << stage;
    }
}

void expect_in_flight(const ActionGrid& grid, std::int32_t expected) {
    for (const auto& row : grid)
        EXPECT_EQ(most_in_flight(row), expected);
}

TEST(ZeroBubble, GradientsAreSummedInOneOrderWhateverTheSchedule) {
    for_all(1, [](const ScheduleShape& shape) {
        expect_canonical(plan::zb_h1(shape), shape);
        expect_canonical(plan::zb_2p(shape), shape);
    });
    for_all(2, [](const ScheduleShape& shape) {
        expect_canonical(plan::zb_v(shape), shape);
        expect_canonical(plan::v_half(shape), shape);
        if (shape.micro_batches >= 2 * shape.pipeline)
            expect_canonical(plan::dualpipe_v(shape), shape);
    });
}

// Table 1 of Qi et al.: (p−1)(F + I − W), where 1F1B has (p−1)(F + I + W).
TEST(ZbH1, HasAThirdOfTheBubbleOf1F1B) {
    for_all(
        1, [](std::int32_t p) { return p; },
        [](const ScheduleShape& shape) {
            const ActionGrid grid = plan::zb_h1(shape);
            for (const Units& units : {Units{1, 1, 1}, Units{2, 3, 1}, Units{5, 4, 3}}) {
                const std::int64_t bubble =
                    (shape.pipeline - 1) * (units.forward + units.input - units.weight);
                EXPECT_EQ(timed(grid, shape, units).makespan(),
                          shape.micro_batches * units.all() + bubble);
            }
        });
}

TEST(ZbH1, KeepsAsManyMicroBatchesAsTheFirstRankOf1F1B) {
    for_all(1, [](const ScheduleShape& shape) {
        expect_in_flight(plan::zb_h1(shape), std::min(shape.micro_batches, shape.pipeline));
    });
}

// A rank that has begun never waits; it begins p−1 later than the first at most.
TEST(Zb2p, HasNoBubbleWhereTheStepsOfRanksAreShifted) {
    for_all(
        1, [](std::int32_t p) { return 2 * p - 1; },
        [](const ScheduleShape& shape) {
            const TimedRun run = timed(plan::zb_2p(shape), shape);
            EXPECT_EQ(run.longest(), 3 * shape.micro_batches);
            EXPECT_EQ(run.makespan(), 3 * shape.micro_batches + shape.pipeline - 1);
        });
}

TEST(Zb2p, KeepsTwiceTheMicroBatchesButOne) {
    for_all(1, [](const ScheduleShape& shape) {
        expect_in_flight(plan::zb_2p(shape), std::min(shape.micro_batches, 2 * shape.pipeline - 1));
    });
}

TEST(ZbV, HasNoBubbleInTheMemoryOf1F1B) {
    for_all(
        2, [](std::int32_t p) { return 2 * p - 1; },
        [](const ScheduleShape& shape) {
            const ActionGrid grid = plan::zb_v(shape);
            const TimedRun run = timed(grid, shape);
            EXPECT_EQ(run.longest(), 6 * shape.micro_batches);
            EXPECT_EQ(run.makespan(), 6 * shape.micro_batches + shape.pipeline - 1);
            // 2p chunks, two of which make what one stage of 1F1B keeps.
            expect_in_flight(grid, 2 * shape.pipeline);
        });
}

TEST(ZbV, WithFewMicroBatchesWaitsLessThan1F1B) {
    for_all(2, [](const ScheduleShape& shape) {
        EXPECT_LE(timed(plan::zb_v(shape), shape).makespan(),
                  6 * (shape.micro_batches + shape.pipeline - 1));
    });
}

// Half of the p stages that 1F1B keeps on its first rank are p chunks; what its building block
// rounds up to is p + 1 where p is odd, p + 2 where it is even.
TEST(VHalf, KeepsHalfOfTheMemoryOf1F1B) {
    for_all(2, [](const ScheduleShape& shape) {
        const std::int32_t p = shape.pipeline;
        for (const auto& row : plan::v_half(shape))
            EXPECT_LE(most_in_flight(row), std::min(2 * shape.micro_batches, p + 2 - p % 2));
    });
}

// 1F1B waits (p−1)·6 of these units. An odd pipeline waits as long as the search of the paper's
// authors makes it, 3p − 4; an even one up to 6 more than theirs, 3p − 7.
TEST(VHalf, HasHalfOfTheBubbleOf1F1B) {
    for_all(
        2, [](std::int32_t p) { return p; },
        [](const ScheduleShape& shape) {
            const std::int32_t p = shape.pipeline;
            const std::int64_t bubble =
                timed(plan::v_half(shape), shape).longest() - 6 * shape.micro_batches;
            if (p % 2 == 1)
                EXPECT_EQ(bubble, p == 1 ? 0 : 3 * p - 4);
            else
                EXPECT_LE(bubble, 3 * p - 1);
        });
}

// PP + 1 chunks in flight over PP = 2p stages, as DeepSeek's table has it. Its bubble counts a pair
// that overlaps as one; where nothing overlaps, what is left is one unit for each rank on the way.
TEST(DualPipeV, WaitsOneUnitPerHop) {
    for_all(
        2, [](std::int32_t p) { return 2 * p; },
        [](const ScheduleShape& shape) {
            const ActionGrid grid = plan::dualpipe_v(shape);
            EXPECT_EQ(timed(grid, shape).makespan(), 6 * shape.micro_batches + shape.pipeline - 1);
            expect_in_flight(grid, 2 * shape.pipeline + 1);
        });
}

// What lowering adds can be sent and received in the order of the rows, each at once: no deadlock.
void expect_lowered(const ActionGrid& grid, plan::Placement placement, const ScheduleShape& shape) {
    const plan::StagePlacement owners = place(placement, shape.pipeline, shape.virtual_stages);
    const auto rows = add_transfers(grid, owners, false, shape.pairs);
    std::vector<std::size_t> next(rows.size(), 0);
    std::set<Action> done;
    const auto peer_waits = [&](std::size_t rank, const Action& action) {
        const bool to_next = action.kind == ActionKind::send_f || action.kind == ActionKind::recv_b;
        const std::int32_t other = action.stage + (to_next ? 1 : -1);
        const auto peer = static_cast<std::size_t>(owners.rank_of(other));
        EXPECT_NE(peer, rank) << to_text(action) << " stays on its rank";
        if (next[peer] == rows[peer].size()) return false;
        const auto kind = [&] {
            if (action.kind == ActionKind::send_f) return ActionKind::recv_f;
            if (action.kind == ActionKind::recv_f) return ActionKind::send_f;
            return action.kind == ActionKind::send_b ? ActionKind::recv_b : ActionKind::send_b;
        }();
        const Action wanted{other, kind, action.micro_batch};
        const plan::LoweredStep& theirs = rows[peer][next[peer]];
        return (theirs.action == wanted) != (theirs.with == wanted);
    };
    std::size_t transfers = 0;
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t rank = 0; rank < rows.size(); ++rank) {
            if (next[rank] == rows[rank].size()) continue;
            const plan::LoweredStep& step = rows[rank][next[rank]];
            if (!is_transfer(step.action.kind)) {
                ++next[rank];
                progress = true;
                continue;
            }
            if (!peer_waits(rank, step.action) || (step.with && !peer_waits(rank, *step.with)))
                continue;
            // Both sides of what meets go on together.
            const bool to_next =
                step.action.kind == ActionKind::send_f || step.action.kind == ActionKind::recv_b;
            ++next[static_cast<std::size_t>(
                owners.rank_of(step.action.stage + (to_next ? 1 : -1)))];
            transfers += step.with ? 2 : 1;
            ++next[rank];
            progress = true;
        }
    }
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
        EXPECT_EQ(next[rank], rows[rank].size()) << "rank " << rank << " is stuck";
    std::int32_t hops = 0;
    for (std::int32_t stage = 0; stage + 1 < owners.stages(); ++stage)
        hops += owners.rank_of(stage) != owners.rank_of(stage + 1) ? 1 : 0;
    EXPECT_EQ(transfers, static_cast<std::size_t>(2 * hops * shape.micro_batches));
}

TEST(ZeroBubble, TransfersCannotDeadlock) {
    for (const std::int32_t p : {1, 2, 3, 4, 5, 8, 15, 32}) {
        if (p > kMostRanks) continue;
        for (const std::int32_t m : {1, 2, p, 2 * p, 2 * p + 1, kMostMicroBatches}) {
            const ScheduleShape whole{p, 1, m}, chunked{p, 2, m};
            expect_lowered(plan::zb_h1(whole), plan::Placement::wrap, whole);
            expect_lowered(plan::zb_2p(whole), plan::Placement::wrap, whole);
            expect_lowered(plan::zb_v(chunked), plan::Placement::v, chunked);
            expect_lowered(plan::v_half(chunked), plan::Placement::v, chunked);
            if (m >= 2 * p) expect_lowered(plan::dualpipe_v(chunked), plan::Placement::v, chunked);
            // In pairs that hide each other's exchange of experts' rows.
            const ScheduleShape pairs{p, 2, m, true};
            if (m >= 2 * p) expect_lowered(plan::dualpipe_v(pairs), plan::Placement::v, pairs);
            if (m % p == 0) expect_lowered(plan::interleaved(pairs), plan::Placement::wrap, pairs);
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
