// Events in few bytes: whatever is put in comes out again, also what is far off everything beside
// it. Blocks have 64 events, so sizes around that are tried.
#include "trace/events.hpp"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

constexpr Picoseconds kLeast = std::numeric_limits<Picoseconds>::min();
constexpr Picoseconds kMost = std::numeric_limits<Picoseconds>::max();
constexpr std::int32_t kLeastOp = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMostOp = std::numeric_limits<std::int32_t>::max();

// One after another, without waiting, in turn three lengths: a block of a simulated stream.
std::vector<Event> in_turn(std::size_t n) {
    std::vector<Event> events;
    Picoseconds clock = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Picoseconds end = clock + 150'000'000 + static_cast<Picoseconds>(i % 3) * 7'919'101;
        events.push_back({clock, clock, end, static_cast<std::int32_t>(i) - 1, -1});
        clock = end;
    }
    if (n > 0) events[0].blocker = kNothing;
    return events;
}

// By index and in a loop, too.
void expect_kept(const std::vector<Event>& events) {
    const Events packed = events;
    ASSERT_EQ(packed.size(), events.size());
    EXPECT_EQ(packed.unpacked(), events);
    std::size_t i = 0;
    for (const Event event : packed) {
        EXPECT_EQ(event, events[i]) << i;
        EXPECT_EQ(packed[i], events[i]) << i;
        ++i;
    }
    EXPECT_EQ(i, events.size());
}

TEST(Events, OfAnyNumberComeBack) {
    for (const std::size_t n : {0, 1, 2, 63, 64, 65, 127, 128, 129, 1000})
        expect_kept(in_turn(n));
    EXPECT_TRUE(Events{}.empty());
}

// Each of what an event says, at the ends of its range and just beyond half a word, alone among
// events that are alike: first, last and amid its block.
TEST(Events, ThatAreFarOffTheOthersComeBack) {
    std::vector<Event> odd;
    for (const Picoseconds time :
         {kLeast, kLeast + 1, Picoseconds{-1}, Picoseconds{1} << 32, (Picoseconds{1} << 32) + 1,
          Picoseconds{1} << 40, Picoseconds{1} << 61, kMost - 1, kMost}) {
        odd.push_back({time, time, time, 0, -1});
        odd.push_back({0, time, time, 0, -1});
        odd.push_back({0, 0, time, 0, -1});
        odd.push_back({time, 0, 0, 0, -1});  // out of order, which check_sound refuses
    }
    for (const std::int32_t op : {kLeastOp, kLeastOp + 1, kNothing, kHost, 65'536, kMostOp}) {
        odd.push_back({0, 0, 1, op, -1});
        odd.push_back({0, 0, 1, 0, op});
    }
    for (const Event& event : odd)
        for (const std::size_t at : {0, 63, 64, 100, 129}) {
            std::vector<Event> events = in_turn(130);
            events[at] = event;
            expect_kept(events);
        }
    expect_kept(odd);
}

TEST(Events, ThatHaveNothingInCommonComeBack) {
    std::mt19937_64 random(11);
    // As many bits as they happen to have: from none to all.
    const auto any = [&] { return static_cast<std::int64_t>(random() >> (random() % 64)); };
    for (int n = 0; n < 300; ++n) {
        std::vector<Event> events(static_cast<std::size_t>(n));
        for (Event& event : events)
            event = {any(), any(), any(), static_cast<std::int32_t>(any()),
                     static_cast<std::int32_t>(any())};
        expect_kept(events);
    }
}

TEST(Events, AreTheSameWhenEachIs) {
    const std::vector<Event> events = in_turn(200);
    EXPECT_EQ(Events(events), Events(events));
    std::vector<Event> longer = events;
    longer[130].end += 1;
    EXPECT_NE(Events(events), Events(longer));
    Events changed = events;
    changed.change([](Event& event, std::size_t i) {
        if (i == 130) event.end += 1;
    });
    EXPECT_EQ(changed, Events(longer));
    longer.pop_back();
    EXPECT_NE(changed, Events(longer));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
