#include "plan/schedule/exchanges.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

std::int32_t chunks_of(const ScheduleKind& kind) {
    return kind.chunks == Chunks::one ? 1 : 2;
}

// Which transfers are exchanges is lowering's alone to say.
TEST(Exchanges, AreThoseOfTheLoweredRows) {
    for (const ScheduleKind& kind : schedule_kinds())
        for (const std::int32_t p : {2, 3, 4}) {
            const Schedule schedule = kind.schedule({p, chunks_of(kind), 3 * p});
            std::vector<std::pair<Action, Action>> expected, found;
            for (const auto& row : add_transfers(schedule.grid, schedule.placement))
                for (const LoweredStep& step : row)
                    if (step.with) expected.emplace_back(step.action, *step.with);
            for (const SentAndReceived& both : exchanges_of(schedule.grid, schedule.placement))
                found.emplace_back(both.sent, both.received);
            EXPECT_EQ(found, expected) << kind.name << " p " << p;
        }
}

// Of two ranks of 1F1B the first sends two activations before a gradient comes; from the third on
// each goes when the gradient of the one before comes, and the last gradient comes alone.
TEST(Exchanges, OfTwoRanksAreAllActivationsButTheFirstTwo) {
    const Schedule schedule = find_schedule("1f1b")->schedule({2, 1, 5});
    std::vector<std::int32_t> forward, back;  // of each exchange, as the first rank has it
    for (const SentAndReceived& both : exchanges_of(schedule.grid, schedule.placement)) {
        EXPECT_TRUE(is_send(both.sent.kind));
        EXPECT_FALSE(is_send(both.received.kind));
        if (both.sent.stage != 0) continue;
        forward.push_back(both.sent.micro_batch);
        back.push_back(both.received.micro_batch);
    }
    EXPECT_EQ(forward, (std::vector<std::int32_t>{2, 3, 4}));
    EXPECT_EQ(back, (std::vector<std::int32_t>{1, 2, 3}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
