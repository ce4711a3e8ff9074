// Links that several jobs share: rates by hand, by what max-min means, and the times of jobs that
// only communicate.
#include "sim/engine/shared_links.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "tests/sim/engine/engine_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using Passage = SharedLinks::Passage;

// Flows of unit load, one a job, over these links, each asking for so many kB/s: what they get.
struct Asked {
    std::vector<Passage> path;
    std::int64_t kBps = 0;
};

std::vector<std::int64_t> rates_of(const std::vector<std::int64_t>& capacities,
                                   const std::vector<Asked>& flows) {
    SharedLinks links(capacities, static_cast<std::int32_t>(flows.size()));
    for (std::size_t f = 0; f < flows.size(); ++f)
        links.begin(static_cast<std::int32_t>(f), 0, links.add_path(flows[f].path), flows[f].kBps);
    std::vector<std::int64_t> rates(flows.size(), kOwnRate);
    for (const SharedLinks::Limit& limit : links.settle())
        rates[static_cast<std::size_t>(limit.job)] = limit.rate;
    for (std::size_t f = 0; f < flows.size(); ++f)
        rates[f] = static_cast<std::int64_t>(
            static_cast<double>(flows[f].kBps) * static_cast<double>(rates[f]) / 1e6 + 0.5);
    return rates;
}

TEST(SharedLinks, AreWholeWhereAllFits) {
    EXPECT_EQ(rates_of({100}, {{{{0, 1, 1}}, 40}, {{{0, 1, 1}}, 60}}),
              (std::vector<std::int64_t>{40, 60}));
}

TEST(SharedLinks, AreHalvedByTwoEqualFlows) {
    EXPECT_EQ(rates_of({100}, {{{{0, 1, 1}}, 100}, {{{0, 1, 1}}, 100}}),
              (std::vector<std::int64_t>{50, 50}));
}

// 20 of 33 are enough for the first; the others have half of the 80 that remain.
TEST(SharedLinks, OfThreeDemandsPassOnWhatTheSmallestLeaves) {
    EXPECT_EQ(rates_of({100}, {{{{0, 1, 1}}, 20}, {{{0, 1, 1}}, 50}, {{{0, 1, 1}}, 100}}),
              (std::vector<std::int64_t>{20, 40, 40}));
}

// Three unit flows of one job, 99 together, beside one of another: a quarter each.
TEST(SharedLinks, AreSharedByUnitFlow) {
    EXPECT_EQ(rates_of({100}, {{{{0, 3, 3}}, 33}, {{{0, 1, 1}}, 100}}),
              (std::vector<std::int64_t>{25, 25}));
}

// The textbook's line: one flow over both links, one over each. The narrow link gives 25 to each of
// its two, and the wide one what is left.
TEST(SharedLinks, GiveWhatAFlowLeavesThatAnotherLinkHolds) {
    EXPECT_EQ(
        rates_of({100, 50}, {{{{0, 1, 1}, {1, 1, 1}}, 50}, {{{0, 1, 1}}, 100}, {{{1, 1, 1}}, 50}}),
        (std::vector<std::int64_t>{25, 75, 25}));
}

// Two flows of one job were priced as if each had the link: alone they keep that. A neighbour takes
// its part of all they ask for.
TEST(SharedLinks, LeaveOneJobWhatItHasAlone) {
    SharedLinks links({100}, 2);
    const std::int32_t path = links.add_path({{0, 1, 1}});
    links.begin(0, 0, path, 100);
    links.begin(0, 1, path, 100);
    EXPECT_TRUE(links.settle().empty());
    links.begin(1, 0, path, 20);
    std::vector<std::int64_t> rates;
    for (const SharedLinks::Limit& limit : links.settle())
        rates.push_back(limit.rate);
    EXPECT_EQ(rates, (std::vector<std::int64_t>{900'000, 900'000}));
}

// What a node holds back a flow does not take of the link.
TEST(SharedLinks, CountWhatNodesAllow) {
    SharedLinks links({100}, 2);
    const std::int32_t path = links.add_path({{0, 1, 1}});
    const std::int32_t held = links.begin(0, 0, path, 100);
    links.begin(1, 0, path, 100);
    links.allow(held, 200'000);
    const auto limits = links.settle();
    ASSERT_EQ(limits.size(), 1U);
    EXPECT_EQ(limits[0].job, 1);
    EXPECT_EQ(limits[0].rate, 800'000);
}

// On random fabrics: nobody has more than asked for, no link carries more than it shares out, and
// whoever has less than it asks for passes a full link on which no unit flow has more.
RC_GTEST_PROP(SharedLinks, AreMaxMin, ()) {
    const int count = *rc::gen::inRange(1, 5);
    std::vector<std::int64_t> capacities;
    for (int l = 0; l < count; ++l)
        capacities.push_back(*rc::gen::inRange<std::int64_t>(10'000'000, 100'000'000));
    std::vector<Asked> flows;
    const int jobs = *rc::gen::inRange(2, 7);
    for (int f = 0; f < jobs; ++f) {
        Asked asked;
        for (int l = 0; l < count; ++l)
            if (*rc::gen::inRange(0, 2) == 1) {
                const std::int32_t units = *rc::gen::inRange(1, 9);
                asked.path.push_back({l, units, static_cast<double>(units)});
            }
        asked.kBps = *rc::gen::inRange<std::int64_t>(100'000, 10'000'000);
        flows.push_back(asked);
    }
    const std::vector<std::int64_t> rates = rates_of(capacities, flows);
    // A link carries at least what one job asks of it (its flow is one here).
    std::vector<double> carries(capacities.begin(), capacities.end());
    std::vector<double> used(capacities.size()), widest(capacities.size());
    for (std::size_t f = 0; f < flows.size(); ++f)
        for (const Passage& on : flows[f].path) {
            const auto l = static_cast<std::size_t>(on.link);
            carries[l] = std::max(carries[l], on.load * static_cast<double>(flows[f].kBps));
            used[l] += on.load * static_cast<double>(rates[f]);
            widest[l] = std::max(widest[l], static_cast<double>(rates[f]));
        }
    constexpr double kRounding = 1e-4;  // rates are told in millionths
    for (std::size_t l = 0; l < capacities.size(); ++l)
        RC_ASSERT(used[l] <= carries[l] * (1 + kRounding));
    for (std::size_t f = 0; f < flows.size(); ++f) {
        RC_ASSERT(rates[f] <= flows[f].kBps);
        if (static_cast<double>(rates[f]) >= static_cast<double>(flows[f].kBps) * (1 - kRounding))
            continue;
        const auto& path = flows[f].path;
        RC_ASSERT(std::any_of(path.begin(), path.end(), [&](const Passage& on) {
            const auto l = static_cast<std::size_t>(on.link);
            return used[l] >= carries[l] * (1 - kRounding) &&
                   static_cast<double>(rates[f]) >= widest[l] * (1 - kRounding);
        }));
    }
}

// --- in time: jobs whose step is one collective, with the same link between its nodes

struct OneCollective {
    OneCollective(Picoseconds duration, std::int64_t kBps, Picoseconds start)
        : at(start), world(1) {
        world.add(0, world.collective(plan::GroupKind::data, duration));
        world.input().node_network_kBps = 1'000'000;
        uses = {{kBps, 1, -1}};
    }
    Picoseconds at;
    EngineWorld world;
    std::vector<NetworkUse> uses;
};

class EndOf : public EngineListener {
  public:
    void ended(TrackId, std::uint32_t, std::uint32_t, const trace::Event& event) override {
        end = event.end;
    }
    Picoseconds end = 0;
};

// Ends of each, on the clock of all.
std::vector<Picoseconds> ends_of(std::vector<std::unique_ptr<OneCollective>>& jobs,
                                 std::int64_t capacity, std::vector<double>* bytes = nullptr) {
    SharedLinks links({capacity}, static_cast<std::int32_t>(jobs.size()));
    std::vector<EngineInTurns> engines;
    std::vector<EndOf> ends(jobs.size());
    std::vector<bool> begun(jobs.size());
    for (auto& job : jobs) {
        job->uses[0].path = links.add_path({{0, 1, 1}});
        engines.emplace_back(job->world.with_uses(job->uses));
    }
    for (;;) {
        Picoseconds now = -1;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            if (begun[j] && engines[j].over()) continue;
            const Picoseconds next = jobs[j]->at + (begun[j] ? engines[j].next_time() : 0);
            if (now < 0 || next < now) now = next;
        }
        if (now < 0) break;
        links.move_to(now);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            if (!begun[j] && jobs[j]->at == now) {
                engines[j].begin(ends[j]);
                engines[j].flows().join(links, static_cast<std::int32_t>(j));
                begun[j] = true;
            }
            while (begun[j] && !engines[j].over() && jobs[j]->at + engines[j].next_time() == now)
                engines[j].run_moment();
            if (begun[j]) engines[j].ask();
        }
        for (const SharedLinks::Limit& limit : links.settle())
            engines[static_cast<std::size_t>(limit.job)].limit(limit.flow, limit.rate);
        for (std::size_t j = 0; j < jobs.size(); ++j)
            if (begun[j]) engines[j].grant(now - jobs[j]->at);
    }
    std::vector<Picoseconds> all;
    for (std::size_t j = 0; j < jobs.size(); ++j)
        all.push_back(jobs[j]->at + ends[j].end);
    if (bytes != nullptr) *bytes = links.sums()[0].bytes;
    return all;
}

std::vector<std::unique_ptr<OneCollective>> collectives(
    const std::vector<std::array<Picoseconds, 3>>& of) {
    std::vector<std::unique_ptr<OneCollective>> jobs;
    for (const auto& [duration, kBps, start] : of)
        jobs.push_back(std::make_unique<OneCollective>(duration, kBps, start));
    return jobs;
}

TEST(JobsInTurns, ThatOnlyCommunicateOverOneFullLinkTakeTwiceAsLong) {
    auto jobs = collectives({{1'000'000, 100, 0}, {1'000'000, 100, 0}});
    EXPECT_EQ(ends_of(jobs, 100), (std::vector<Picoseconds>{2'000'000, 2'000'000}));
}

TEST(JobsInTurns, AloneTakeWhatTheyTake) {
    auto jobs = collectives({{1'234'567, 100, 0}});
    EXPECT_EQ(ends_of(jobs, 1), (std::vector<Picoseconds>{1'234'567}));
}

// The second comes when half of the first is done: both at half speed until the first ends at 1.5,
// then the second does the half that is left by itself.
TEST(JobsInTurns, ShareWhileTheyMeet) {
    auto jobs = collectives({{1'000'000, 100, 0}, {1'000'000, 100, 500'000}});
    EXPECT_EQ(ends_of(jobs, 100), (std::vector<Picoseconds>{1'500'000, 2'000'000}));
}

// Of 100 they ask 20, 50 and 100 and get 20, 40 and 40. The first ends at 1 as alone; the second
// has done 0.8 by then, the third 0.4. Of 100 the second then has its 50, and so has the third:
// 0.2 more take the second to 1.2, when the third has done 0.5; alone it ends at 1.7.
TEST(JobsInTurns, OfThreeDemandsEndAsMaxMinSays) {
    auto jobs = collectives({{1'000'000, 20, 0}, {1'000'000, 50, 0}, {1'000'000, 100, 0}});
    std::vector<double> bytes;
    EXPECT_EQ(ends_of(jobs, 100, &bytes),
              (std::vector<Picoseconds>{1'000'000, 1'200'000, 1'700'000}));
    // kB/s × µs alone, whatever they met.
    EXPECT_NEAR(bytes[0], 20e3 * 1e-6, 1e-9);
    EXPECT_NEAR(bytes[1], 50e3 * 1e-6, 1e-9);
    EXPECT_NEAR(bytes[2], 100e3 * 1e-6, 1e-9);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
