// Shifts of jobs' starts: two equal jobs on one link, where what must remain is known; unlike
// steps; with places.
#include "sim/jobs/shift_search.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <cmath>

#include "sim/jobs/place_search.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using theory::Sets;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

// Four nodes of every second, data parallel, below leaves of two nodes that send up a quarter.
Job job_of(const std::string& name, std::int64_t micro_batches, double start_s = 0) {
    const plan::Scenario scenario =
        theory::scenario({"cluster.devices_per_node=4", "cluster.inter_node.nics_per_node=4",
                          "cluster.inter_node.bandwidth_Gbps=2",
                          R"(cluster.inter_node.fabric={"kind": "fat_tree", "switch_latency_us": 1,
            "levels": [{"nodes": 2, "oversubscription": 4}]})",
                          "layout.data_parallel=16", "cluster.nodes=4",
                          theory::set("layout.global_batch_size", 16 * micro_batches)});
    return {name, scenario, plan::build_plan(scenario), profile(), start_s};
}

const std::vector<NodeList> kInTurns = {{0, 2, 4, 6}, {1, 3, 5, 7}};

plan::Cluster shared_cluster(const Job& job) {
    plan::Cluster cluster = job.scenario.cluster;
    cluster.nodes = 8;
    return cluster;
}

ShiftSearchResult searched(const std::vector<Job>& jobs) {
    return search_shifts(shared_cluster(jobs[0]), jobs, kInTurns, {});
}

// What the fullest link needs to carry a step of the job, of the step alone.
double fullest(const Job& job) {
    double most = 0;
    for (const auto& [link, share] : run_alone(shared_cluster(job), job, kInTurns[0]).links)
        most = std::max(most, share.busy * share.demand);
    return most;
}
double longest_busy(const Job& job) {
    double most = 0;
    for (const auto& [link, share] : run_alone(shared_cluster(job), job, kInTurns[0]).links)
        most = std::max(most, share.busy);
    return most;
}

// Two equal jobs that communicate for D of C + D, with C ≥ D: one does while the other computes.
TEST(ShiftSearch, PartsPhasesThatFitBesideEachOther) {
    const Job a = job_of("a", 256), b = job_of("b", 256);
    ASSERT_LT(longest_busy(a), 0.5);
    const ShiftSearchResult result = searched({a, b});
    EXPECT_GT(result.given().score, 2);
    EXPECT_EQ(result.simulated.front().slowdowns, (std::vector<double>{1, 1}));
    EXPECT_EQ(result.simulated.front().candidate.estimate, 2);
    EXPECT_TRUE(result.drifts.empty());
    const std::vector<double>& later_s = result.simulated.front().candidate.later_s;
    const double step_s = to_seconds(result.given().outcome.jobs[0].alone.length);
    EXPECT_EQ(later_s[0], 0);
    EXPECT_GT(later_s[1], longest_busy(a) * step_s * 0.9);
    EXPECT_LT(later_s[1], (1 - longest_busy(a) * 0.9) * step_s);
}

// With C < D the link that needs D of each carries both in no less than 2 D, whatever the starts.
// Begun together they compute at the same time and communicate at half the rate: C + 2 D.
TEST(ShiftSearch, LeavesWhatTheLinkMustCarry) {
    const Job a = job_of("a", 64), b = job_of("b", 64);
    const double needs = fullest(a);  // D ÷ (C + D)
    ASSERT_GT(needs, 0.5);
    const ShiftSearchResult result = searched({a, b});
    for (const SimulatedShifts& one : result.simulated)
        for (const double slowdown : one.slowdowns)
            EXPECT_GE(slowdown, 2 * needs * (1 - 1e-6));
    for (const double slowdown : result.given().slowdowns)
        EXPECT_NEAR(slowdown, 1 + needs, 0.02);
    for (const double slowdown : result.simulated.front().slowdowns)
        EXPECT_NEAR(slowdown, 2 * needs, 0.02);
}

// What is good already stays: a start given in the middle of the other's computation.
TEST(ShiftSearch, LeavesStartsThatCannotBeBettered) {
    const double step_s = to_seconds(
        run_alone(shared_cluster(job_of("a", 256)), job_of("a", 256), kInTurns[0]).step.length);
    const ShiftSearchResult result = searched({job_of("a", 256), job_of("b", 256, step_s / 2)});
    EXPECT_EQ(result.simulated.front().candidate.how, "as given");
    EXPECT_EQ(result.simulated.front().score, 2);
}

TEST(ShiftSearch, IsNeverWorseThanGiven) {
    for (const std::int64_t micro_batches : {1, 2, 8, 64})
        for (const double start_s : {0.0, 1e-3}) {
            const ShiftSearchResult result =
                searched({job_of("a", micro_batches), job_of("b", 4, start_s)});
            EXPECT_LE(result.simulated.front().score, result.given().score);
            EXPECT_EQ(result.given().candidate.later_s, (std::vector<double>{0, 0}));
        }
}

// In a step of the slow one the fast one goes round some times whole, and a rest.
TEST(ShiftSearch, SaysWherePhasesDrift) {
    const Job a = job_of("a", 16), b = job_of("b", 35);
    const ShiftSearchResult result = searched({a, b});
    const double fast = to_seconds(run_alone(shared_cluster(a), a, kInTurns[0]).step.run);
    const double slow = to_seconds(run_alone(shared_cluster(a), b, kInTurns[1]).step.run);
    ASSERT_LT(fast, slow);
    ASSERT_EQ(result.drifts.size(), 1U);
    EXPECT_EQ(result.drifts[0].slow, 1);
    EXPECT_EQ(result.drifts[0].fast, 0);
    const double drift = std::abs(slow - std::round(slow / fast) * fast);
    EXPECT_NEAR(result.drifts[0].drift_s, drift, 1e-11);
    EXPECT_NEAR(result.drifts[0].runs, fast / drift, 1e-3);
}

// Jobs without a link in common have nothing to part.
TEST(ShiftSearch, OfJobsThatDoNotMeetIsOver) {
    const Job a = job_of("a", 1), b = job_of("b", 2);
    const ShiftSearchResult result =
        search_shifts(shared_cluster(a), {a, b}, {{0, 1, 2, 3}, {4, 5, 6, 7}}, {});
    ASSERT_EQ(result.simulated.size(), 1U);
    EXPECT_EQ(result.simulated[0].score, 2);
    EXPECT_TRUE(result.drifts.empty());
}

TEST(ShiftSearch, DoesNotDependOnTheNumberOfThreads) {
    const std::vector<Job> jobs = {job_of("a", 1), job_of("b", 3)};
    const ShiftSearchResult many = searched(jobs);
    const oneapi::tbb::global_control one(oneapi::tbb::global_control::max_allowed_parallelism, 1);
    const ShiftSearchResult single = searched(jobs);
    EXPECT_EQ(many.estimated, single.estimated);
    ASSERT_EQ(many.simulated.size(), single.simulated.size());
    for (std::size_t i = 0; i < many.simulated.size(); ++i) {
        EXPECT_EQ(many.simulated[i].candidate.later_s, single.simulated[i].candidate.later_s);
        EXPECT_EQ(many.simulated[i].slowdowns, single.simulated[i].slowdowns);
    }
}

// Jobs that stay where they are can still be shifted there.
TEST(PlaceSearch, ShiftsWherePlacesAreSimulated) {
    const std::vector<Job> jobs = {job_of("a", 256), job_of("b", 256)};
    PlaceSearchOptions options;
    const auto best = [&] {
        return search_places(shared_cluster(jobs[0]), jobs, kInTurns, {true, true}, options)
            .simulated.front();
    };
    const SimulatedPlaces places = best();
    options.shifts = true;
    const SimulatedPlaces both = best();
    EXPECT_FALSE(places.shifts);
    ASSERT_TRUE(both.shifts);
    EXPECT_LT(both.score, places.score);
    EXPECT_EQ(both.slowdowns, both.shifts->simulated.front().slowdowns);
    EXPECT_EQ(both.shifts->given().slowdowns, places.slowdowns);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
