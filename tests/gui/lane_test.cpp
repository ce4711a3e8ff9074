// Lanes, strips and views by hand-made spans: every expected place is arithmetic on the numbers in
// the test.
#include "gui/timeline/lane.hpp"

#include <random>

#include <gtest/gtest.h>

#include "gui/timeline/strips.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

constexpr auto kForward = static_cast<std::size_t>(Kind::forward);
constexpr auto kBackward = static_cast<std::size_t>(Kind::backward);

// n boxes of `length`, `pitch` apart, forward and backward in turn.
Lane comb(std::size_t n, Picoseconds length, Picoseconds pitch) {
    std::vector<Span> spans;
    for (std::size_t i = 0; i < n; ++i) {
        const Picoseconds from = static_cast<Picoseconds>(i) * pitch;
        spans.push_back({from, from + length, static_cast<std::int32_t>(i),
                         i % 2 == 0 ? Kind::forward : Kind::backward});
    }
    return Lane("comb", std::move(spans));
}

Viewport view_of(Stretch stretch, int width) {
    Viewport view(stretch);
    view.set_width(width);
    return view;
}

// By going over all spans.
KindSums counted(const Lane& lane, Picoseconds from, Picoseconds to) {
    KindSums sums{};
    for (const Span& span : lane.spans())
        sums[static_cast<std::size_t>(span.kind)] +=
            std::max<Picoseconds>(0, std::min(span.to, to) - std::max(span.from, from));
    return sums;
}

TEST(Lane, SumsOfAnyStretchAreThoseOfGoingOverAllSpans) {
    const Lane lane = comb(1000, 7, 10);
    std::mt19937 random(3);
    std::uniform_int_distribution<Picoseconds> place(-50, 10'050);
    for (int i = 0; i < 2000; ++i) {
        const Picoseconds a = place(random), b = place(random);
        const Picoseconds from = std::min(a, b), to = std::max(a, b);
        ASSERT_EQ(lane.within(from, to), counted(lane, from, to)) << from << " " << to;
    }
    EXPECT_EQ(lane.within(0, 10'000)[kForward], 500 * 7);
    EXPECT_EQ(lane.within(5, 5), KindSums{});
}

// Of those that a painter asks for (in order, mostly one where the other ends) and of any others.
TEST(Lane, SumsOfManyStretchesAreThoseOfEach) {
    const Lane lane = comb(1000, 7, 10);
    ASSERT_EQ(lane.kinds(), (std::vector<Kind>{Kind::forward, Kind::backward}));
    std::mt19937 random(5);
    std::uniform_int_distribution<Picoseconds> place(-50, 10'050), width(0, 400);
    std::vector<Stretch> stretches;
    for (Picoseconds from = -50; from < 10'050; from = stretches.back().to + width(random) % 3)
        stretches.push_back({from, from + width(random)});
    for (int i = 0; i < 500; ++i)
        stretches.push_back({place(random), place(random)});  // of some the end is before the start
    const std::vector<Picoseconds> sums = lane.within(stretches);
    ASSERT_EQ(sums.size(), 2 * stretches.size());
    for (std::size_t i = 0; i < stretches.size(); ++i) {
        const KindSums expected = counted(lane, stretches[i].from, stretches[i].to);
        ASSERT_EQ(sums[2 * i], expected[kForward]) << i;
        ASSERT_EQ(sums[2 * i + 1], expected[kBackward]) << i;
    }
    EXPECT_TRUE(Lane("empty", {}).within(stretches).empty());
}

TEST(Lane, FindsWhatStartsAndEndsAtAMoment) {
    const Lane lane = comb(1000, 7, 10);
    EXPECT_EQ(lane.first_ending_after(-1), 0U);
    EXPECT_EQ(lane.first_ending_after(6), 0U);
    EXPECT_EQ(lane.first_ending_after(7), 1U);  // the first has ended then
    EXPECT_EQ(lane.first_ending_after(9'997), 1000U);
    for (const std::size_t hint : {0, 1, 400, 499, 500}) {
        EXPECT_EQ(lane.first_starting_at(5'000, hint), 500U) << hint;
        EXPECT_EQ(lane.first_starting_at(5'001, hint), 501U) << hint;
    }
    EXPECT_EQ(lane.first_starting_at(99'999), 1000U);
}

TEST(LaneDeathTest, OverlappingSpansAreABug) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(Lane("bad", {{0, 10, 0, Kind::forward}, {9, 12, 1, Kind::forward}}), "overlap");
}

TEST(Strips, WideSpansAreStripsOfTheirOwn) {
    const Lane lane = comb(3, 500, 1000);
    const std::vector<Strip> strips = strips_of(lane, view_of({0, 3000}, 300));  // 10 ps a pixel
    ASSERT_EQ(strips.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(strips[i].first, i);
        EXPECT_FALSE(strips[i].run);
        EXPECT_DOUBLE_EQ(strips[i].left, 100. * static_cast<double>(i));
        EXPECT_DOUBLE_EQ(strips[i].right, 100. * static_cast<double>(i) + 50);
    }
}

// A million spans on 400 pixels: as many strips as there are columns, whatever the spans, and every
// one of them is in some strip.
TEST(Strips, NarrowSpansAreRunsOfAColumnEach) {
    constexpr std::size_t kSpans = 1'000'000;
    const Lane lane = comb(kSpans, 10, 10);
    const std::vector<Strip> strips = strips_of(lane, view_of({0, 10 * kSpans}, 400));
    EXPECT_EQ(strips.size(), 400 / static_cast<std::size_t>(kLeastPixels));
    std::size_t seen = 0;
    for (const Strip& strip : strips) {
        EXPECT_TRUE(strip.run);
        EXPECT_EQ(strip.first, seen);
        seen += strip.spans;
        EXPECT_DOUBLE_EQ(strip.right - strip.left, kLeastPixels);
    }
    EXPECT_EQ(seen, kSpans);
}

TEST(Strips, ASpanThatReachesIntoAnEmptyColumnIsSeenThere) {
    // 10 ps a pixel, columns of 40 ps: the span is 3.5 pixels wide and lies in two of them.
    const Lane lane("one", {{30, 65, 0, Kind::forward}});
    const std::vector<Strip> strips = strips_of(lane, view_of({0, 1000}, 100));
    ASSERT_EQ(strips.size(), 2U);
    EXPECT_DOUBLE_EQ(strips[0].left, 0);
    EXPECT_DOUBLE_EQ(strips[1].left, 4);
    EXPECT_DOUBLE_EQ(strips[1].right, 8);
}

TEST(Strips, OnlyWhatIsVisibleIsThere) {
    const Lane lane = comb(1000, 7'000, 10'000);
    Viewport view = view_of({0, 10'000'000}, 1000);
    view.show({2'005'000, 2'105'000});
    const std::vector<Strip> strips = strips_of(lane, view);
    ASSERT_FALSE(strips.empty());
    EXPECT_EQ(strips.front().first, 200U);  // ends at 2,007,000
    EXPECT_EQ(strips.back().first, 210U);   // starts at 2,100,000
    EXPECT_EQ(spans_in(lane, view.shown()), 11U);
}

TEST(Strips, AClickHitsTheSpanUnderItOrTheNearest) {
    const Lane lane = comb(3, 500, 1000);
    const Viewport view = view_of({0, 3000}, 300);
    EXPECT_EQ(span_at(lane, view, 120), 1);
    EXPECT_EQ(span_at(lane, view, 50.5), 0);  // half a pixel beside it
    EXPECT_EQ(span_at(lane, view, 75), -1);
}

TEST(Viewport, ZoomKeepsWhatIsUnderTheCursor) {
    Viewport view = view_of({0, 1'000'000}, 1000);
    const Picoseconds still = view.time_at(250);
    view.zoom(0.5, 250);
    EXPECT_EQ(view.shown().length(), 500'000);
    EXPECT_EQ(view.time_at(250), still);
    view.zoom(2, 250);
    EXPECT_EQ(view.shown(), (Stretch{0, 1'000'000}));
}

TEST(Viewport, NeverLeavesItsLimits) {
    Viewport view = view_of({-500, 1'000'000}, 1000);
    view.zoom(0.25, 0);
    view.pan(-1e6);
    EXPECT_EQ(view.shown().from, -500);
    view.pan(1e6);
    EXPECT_EQ(view.shown().to, 1'000'000);
    view.zoom(1e9, 500);
    EXPECT_EQ(view.shown(), view.limits());
    view.zoom(1e-12, 500);
    EXPECT_EQ(view.shown().length(), 1000);  // no less is shown than a nanosecond
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
