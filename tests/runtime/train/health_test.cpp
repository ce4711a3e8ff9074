// Rules that say when a run is ill, on figures made for each.
#include "runtime/train/health.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>

#include "runtime/random.hpp"
#include "runtime/train/stall_watch.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;

plan::Health window_of(std::int64_t steps, double above) {
    plan::Health health;
    health.diverging_window = steps;
    health.diverging_above = above;
    return health;
}

// Steps at which something was said.
struct Said {
    std::vector<std::int64_t> begins, ends;
};

Said said_of(const plan::Health& limits, const std::vector<double>& losses) {
    LossWatch watch(limits);
    Said said;
    for (std::size_t i = 0; i < losses.size(); ++i)
        if (const auto notice = watch.step(static_cast<std::int64_t>(i) + 1, losses[i]))
            (notice->begins ? said.begins : said.ends).push_back(notice->step);
    return said;
}

// Means of two: 4 3.5 3 2.5 … ; the least mean of losses before both of a window counts.
TEST(LossWatch, SaysOnceThatTheLossLeavesAndOnceThatItIsBack) {
    // Windows of 2: (4 3) 3.5, (3 2) 2.5, (2 2) 2, (2 4) 3, (4 4) 4, (4 2) 3, (2 2) 2, (2 2) 2.
    // Least before each, of windows that do not overlap it: -, -, 3.5, 2.5, 2, 2, 2, 2.
    const Said said = said_of(window_of(2, 1.5), {4, 3, 2, 2, 4, 4, 2, 2, 2});
    EXPECT_EQ(said.begins, std::vector<std::int64_t>{6}) << "4 is more than 1.5 × 2";
    EXPECT_EQ(said.ends, std::vector<std::int64_t>{7}) << "3 is not";
}

TEST(LossWatch, IsCalmWhereALossFallsOrSpikesOnce) {
    std::vector<double> losses;
    for (int i = 0; i < 200; ++i) {
        const double noise = 0.1 * (uniform({7, 1, 1}, static_cast<std::uint64_t>(i)) - 0.5);
        losses.push_back(2 + 8 * std::exp(-i / 30.0) + noise);
    }
    losses[120] = 8;  // one in twenty: their mean rises by 6/20 from 2, to 1.15 × as much
    const Said said = said_of({}, losses);
    EXPECT_TRUE(said.begins.empty());
    for (int i = 0; i < 30; ++i)
        losses.push_back(2 + 0.1 * i);
    // The mean of twenty that rise by 0.1 each passes 2.5, 1.25 × the least of about 2, when the
    // middle of them is 0.5 above: some 15 steps after the rise began.
    EXPECT_EQ(said_of({}, losses).begins.size(), 1U);
    EXPECT_NEAR(static_cast<double>(said_of({}, losses).begins.front()), 200 + 15, 3);
}

TEST(LossWatch, LeavesWhatIsNoNumberToOthers) {
    EXPECT_TRUE(said_of(window_of(1, 1.5), {1, NAN, 1, INFINITY, 1}).begins.empty());
}

std::vector<HealthNotice> notices_of(StragglerWatch& watch,
                                     const std::vector<std::vector<double>>& steps) {
    std::vector<HealthNotice> all;
    for (std::size_t i = 0; i < steps.size(); ++i)
        for (HealthNotice& notice : watch.step(static_cast<std::int64_t>(i) + 1, steps[i]))
            all.push_back(std::move(notice));
    return all;
}

const std::vector<std::string> kHosts = {"a", "a", "b", "b"};

TEST(StragglerWatch, NamesTheSlowOneWithFigures) {
    StragglerWatch watch({0, 0, 0, 0}, {0, 0, 0, 0}, kHosts);
    std::vector<std::vector<double>> steps(12, {1.0, 1.02, 1.3, 0.98});
    steps[3] = {1.0, 9.0, 1.3, 0.98};  // a hiccup is no straggler
    const auto notices = notices_of(watch, steps);
    ASSERT_EQ(notices.size(), 1U);
    EXPECT_EQ(notices[0].ailment, Ailment::straggler);
    EXPECT_TRUE(notices[0].begins);
    EXPECT_EQ(notices[0].step, 10) << "the median of ten steps";
    EXPECT_EQ(notices[0].rank, 2);
    EXPECT_EQ(notices[0].host, "b");
    // The others' median is 1.0: of 0.98, 1.0, 1.02. 1.3 is 30 % more.
    EXPECT_EQ(notices[0].message,
              "rank 2 on b computes 30 % longer than its peers: 1.3 s of a step, the median of its "
              "3 peers for the same 1 s");
}

TEST(StragglerWatch, SaysWhenItHasCaughtUp) {
    StragglerWatch watch({0, 0}, {0, 0}, {"a", "b"});
    std::vector<std::vector<double>> steps(10, {1.0, 1.5});
    steps.resize(30, {1.0, 1.01});
    const auto notices = notices_of(watch, steps);
    ASSERT_EQ(notices.size(), 2U);
    EXPECT_TRUE(notices[0].begins);
    EXPECT_FALSE(notices[1].begins);
    EXPECT_EQ(notices[1].rank, 1);
    // Of ten steps the upper one of the two in the middle is below once six are fast.
    EXPECT_EQ(notices[1].step, 16);
    EXPECT_THAT(notices[1].message, HasSubstr("rank 1 on b has caught up with its peers"));
}

TEST(StragglerWatch, NamesNobodyOfAnEvenRun) {
    StragglerWatch watch({0, 0, 0, 0}, {0, 0, 0, 0}, kHosts);
    std::vector<std::vector<double>> steps;
    for (std::uint64_t step = 0; step < 400; ++step) {
        auto& times = steps.emplace_back();
        for (std::uint64_t rank = 0; rank < 4; ++rank) {
            const double noise = uniform({3, 2, 1}, 4 * step + rank);
            times.push_back(1 + 0.15 * noise +
                            (noise > 0.97 ? 3 : 0));  // and a hiccup now and then
        }
    }
    EXPECT_TRUE(notices_of(watch, steps).empty());
}

// Stages differ in their work: only ranks of the same are compared, unless a prediction says what
// each was to take.
TEST(StragglerWatch, ComparesTheSameWork) {
    const std::vector<std::vector<double>> steps(10, {1.0, 1.0, 2.0, 2.6});
    StragglerWatch stages({0, 0, 1, 1}, {0, 0, 0, 0}, kHosts);
    const auto of_stage = notices_of(stages, steps);
    ASSERT_EQ(of_stage.size(), 1U);
    EXPECT_EQ(of_stage[0].rank, 3);

    StragglerWatch alone({0, 1, 2, 3}, {0, 0, 0, 0}, kHosts);
    EXPECT_TRUE(notices_of(alone, steps).empty()) << "nobody has a peer";

    StragglerWatch expected({0, 1, 2, 3}, {0.5, 0.5, 1.0, 1.0}, kHosts);
    const auto of_all = notices_of(expected, steps);
    ASSERT_EQ(of_all.size(), 1U) << "all take twice as long as predicted, one 2.6 times";
    EXPECT_EQ(of_all[0].rank, 3);
    EXPECT_THAT(of_all[0].message, HasSubstr("2.6 s of a step, the median of its 3 peers for the "
                                             "same 2 s, 1 s were predicted"));
}

// Peers that scatter more than the rank is off do not make it a straggler.
TEST(StragglerWatch, AsksForMoreThanThePeersScatter) {
    StragglerWatch watch({0, 0, 0, 0}, {0, 0, 0, 0}, kHosts);
    // Others of rank 3: median 1.0, deviation of {0.6, 1.0, 1.9} is 0.54; 1.4 is 0.4 above.
    const auto notices =
        notices_of(watch, std::vector<std::vector<double>>(10, {0.6, 1.0, 1.9, 1.4}));
    for (const HealthNotice& notice : notices)
        EXPECT_NE(notice.rank, 3);
}

TEST(StallLimit, FollowsStepsAndSaves) {
    plan::Health health;
    health.stalled_after_s = 5;
    health.starts_within_s = 60;
    StallLimit limit(health);
    EXPECT_EQ(limit.seconds(), 60);
    limit.stepped(0.1);
    EXPECT_EQ(limit.seconds(), 5);
    for (int i = 0; i < 5; ++i)
        limit.stepped(2);
    EXPECT_EQ(limit.seconds(), 20) << "ten times the median";
    limit.saved(3);
    limit.saved(1);
    EXPECT_EQ(limit.seconds(), 26) << "and two saves as slow as the slowest";
}

TEST(StallWatch, SaysOnceThatNothingHappensAndOnceThatItGoesOn) {
    plan::Health health;
    health.starts_within_s = 0.02;
    health.stalled_after_s = 100;
    std::atomic<int> said{0};
    std::vector<HealthNotice> notices;
    {
        StallWatch watch(health, [&](const HealthNotice& notice) {
            notices.push_back(notice);
            said.fetch_add(1);
            said.notify_all();
        });
        said.wait(0);
        watch.stepped(1, 0.5);
        watch.stepped(2, 0.5);
    }
    ASSERT_EQ(notices.size(), 2U);
    EXPECT_TRUE(notices[0].begins);
    EXPECT_EQ(notices[0].step, 1);
    EXPECT_EQ(notices[0].figures[1].second, 0.02);
    EXPECT_GE(notices[0].figures[0].second, 0.02);
    EXPECT_FALSE(notices[1].begins);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
