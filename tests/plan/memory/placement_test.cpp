// No two that live at once share memory, and little room is lost.
#include "plan/memory/placement.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

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

// First fit the long way: of 0 and of what ends beside a life the lowest place that is free.
std::int64_t first_fit(const std::vector<Lifetime>& lifetimes,
                       const std::vector<std::size_t>& order, std::vector<std::int64_t>& offsets) {
    std::int64_t all = 0;
    std::vector<std::size_t> placed;
    for (const std::size_t one : order) {
        std::vector<std::int64_t> places = {0};
        for (const std::size_t other : placed)
            places.push_back(offsets[other] + lifetimes[other].bytes);
        std::sort(places.begin(), places.end());
        const auto is_free = [&](std::int64_t place) {
            return std::none_of(placed.begin(), placed.end(), [&](std::size_t other) {
                return lifetimes[other].first <= lifetimes[one].last &&
                       lifetimes[one].first <= lifetimes[other].last &&
                       offsets[other] < place + lifetimes[one].bytes &&
                       place < offsets[other] + lifetimes[other].bytes;
            });
        };
        offsets[one] = *std::find_if(places.begin(), places.end(), is_free);
        all = std::max(all, offsets[one] + lifetimes[one].bytes);
        placed.push_back(one);
    }
    return all;
}

// Births with those apart on top, births alone, the largest first, these backwards in time: the
// first of those that take least room, unless all above each other take no more than must be.
RC_GTEST_PROP(Placement, IsTheSmallestFirstFitOfFourOrders, ()) {
    const std::vector<Lifetime> lifetimes = drawn(6);
    const std::size_t count = lifetimes.size();
    std::vector<std::size_t> births(count), lower, upper;
    std::iota(births.begin(), births.end(), std::size_t{0});
    std::vector<std::int64_t> best(count), other(count);
    std::int64_t bytes = 0;
    for (const std::size_t one : births) {
        best[one] = bytes;
        bytes += lifetimes[one].bytes;
        (lifetimes[one].apart ? upper : lower).push_back(one);
    }
    if (bytes != most_alive(lifetimes)) {
        const std::int64_t below = first_fit(lifetimes, lower, best);
        bytes = below + first_fit(lifetimes, upper, best);
        for (const std::size_t one : upper)
            best[one] += below;
        const auto try_order = [&](auto key) {
            std::vector<std::size_t> order = births;
            std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                return key(lifetimes[a]) > key(lifetimes[b]);
            });
            const std::int64_t all = first_fit(lifetimes, order, other);
            if (all >= bytes) return;
            bytes = all;
            best = other;
        };
        try_order([](const Lifetime&) { return 0; });
        try_order([](const Lifetime& life) { return life.bytes; });
        try_order([](const Lifetime& life) { return std::pair(life.bytes, life.last); });
    }
    const Placement placement = place(lifetimes);
    RC_ASSERT(placement.offsets == best);
    RC_ASSERT(placement.bytes == bytes);
}

TEST(Placement, OfNothingIsEmpty) {
    EXPECT_EQ(place({}).bytes, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
