// No two that live at once share memory, and little room is lost.
#include "plan/memory/placement.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

void expect_sound(const std::vector<Lifetime>& lifetimes, const Placement& placement) {
    ASSERT_EQ(placement.offsets.size(), lifetimes.size());
    for (std::size_t a = 0; a < lifetimes.size(); ++a) {
        EXPECT_GE(placement.offsets[a], 0);
        EXPECT_LE(placement.offsets[a] + lifetimes[a].bytes, placement.bytes);
        for (std::size_t b = 0; b < a; ++b) {
            const bool together =
                lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
            const bool touch = placement.offsets[a] < placement.offsets[b] + lifetimes[b].bytes &&
                               placement.offsets[b] < placement.offsets[a] + lifetimes[a].bytes;
            EXPECT_FALSE(together && touch) << a << " and " << b;
        }
    }
    EXPECT_GE(placement.bytes, most_alive(lifetimes));
}

std::vector<Lifetime> drawn(std::int64_t most_bytes) {
    std::vector<Lifetime> lifetimes;
    const int count = *rc::gen::inRange(0, 60);
    for (int i = 0; i < count; ++i) {
        const int first = *rc::gen::inRange(0, 40);
        lifetimes.push_back({256 * *rc::gen::inRange<std::int64_t>(1, most_bytes + 1), first,
                             first + *rc::gen::inRange(0, 20), *rc::gen::arbitrary<bool>()});
    }
    std::stable_sort(lifetimes.begin(), lifetimes.end(),
                     [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
    return lifetimes;
}

RC_GTEST_PROP(Placement, SharesNoMemoryAmongThoseThatLiveAtOnce, ()) {
    const std::vector<Lifetime> lifetimes = drawn(12);
    expect_sound(lifetimes, place(lifetimes));
    RC_ASSERT(!::testing::Test::HasFailure());
}

// First fit in order of birth colours intervals with as many colours as meet at one point.
RC_GTEST_PROP(Placement, LosesNothingWhereSizesAreAlike, ()) {
    const std::vector<Lifetime> lifetimes = drawn(1);
    RC_ASSERT(place(lifetimes).bytes == most_alive(lifetimes));
}

// In order of birth the second lies above the first, and the third finds no room for 4 beneath it:
// 7 in all, of which 5 are alive at most.
TEST(Placement, PutsTheLargestFirstWhereThatTakesLess) {
    const std::vector<Lifetime> lifetimes = {{2, 0, 1, false}, {1, 0, 5, false}, {4, 2, 5, false}};
    ASSERT_EQ(most_alive(lifetimes), 5);
    const Placement placement = place(lifetimes);
    expect_sound(lifetimes, placement);
    EXPECT_EQ(placement.bytes, 5);
}

TEST(Placement, OfNothingIsEmpty) {
    EXPECT_EQ(place({}).bytes, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
