// The queue against an oracle: a stable sort by time of what is pending.
#include "sim/engine/event_queue.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

TEST(EventQueue, EqualTimesComeOutAsTheyWentIn) {
    EventQueue<int> queue;
    for (int i = 0; i < 100; ++i)
        queue.push(i % 3, i);
    for (int time = 0; time < 3; ++time)
        for (int i = time; i < 100; i += 3) {
            const auto entry = queue.pop();
            EXPECT_EQ(entry.time, time);
            EXPECT_EQ(entry.payload, i);
        }
    EXPECT_TRUE(queue.empty());
}

// Numbers ≥ 0 are pushes so much after the last pop, small and large ones; −1 is a pop.
RC_GTEST_PROP(EventQueue, IsAStableSortOfWhatIsPending, ()) {
    const auto actions =
        *rc::gen::container<std::vector<Picoseconds>>(rc::gen::weightedOneOf<Picoseconds>(
            {{2, rc::gen::just<Picoseconds>(-1)},
             {2, rc::gen::inRange<Picoseconds>(0, 6)},
             {1, rc::gen::map(rc::gen::inRange(0, 61),
                              [](int bits) { return Picoseconds{1} << bits; })}}));
    Picoseconds now = 0;
    EventQueue<int> queue;
    std::vector<std::pair<Picoseconds, int>> pending;  // oracle, in insertion order
    int next = 0;
    for (const Picoseconds action : actions) {
        if (action >= 0) {
            if (now > std::numeric_limits<Picoseconds>::max() - action) continue;
            queue.push(now + action, next);
            pending.emplace_back(now + action, next++);
            continue;
        }
        RC_ASSERT(queue.empty() == pending.empty());
        if (pending.empty()) continue;
        const auto first =
            std::min_element(pending.begin(), pending.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
        const auto entry = queue.pop();
        RC_ASSERT(entry.time == first->first);
        RC_ASSERT(entry.payload == first->second);
        now = entry.time;
        pending.erase(first);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
