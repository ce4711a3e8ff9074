// Several jobs on one fabric: alone as simulate has it, apart as alone, together as the unfolded
// run; what links carry; the search of places.
#include "sim/jobs/run_jobs.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <map>
#include <numeric>
#include <tuple>

#include "sim/jobs/place_search.hpp"
#include "sim/prediction.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using theory::Sets;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

// Leaves of two nodes of four devices each; adapters so slow that gradients take most of a step.
Sets fabric_sets(const std::string& kind = "fat_tree", const std::string& oversubscription = "4") {
    return {"cluster.devices_per_node=4", "cluster.inter_node.nics_per_node=4",
            "cluster.inter_node.bandwidth_Gbps=2",
            R"(cluster.inter_node.fabric={"kind": ")" + kind +
                R"(", "switch_latency_us": 1, "levels": [{"nodes": 2, "oversubscription": )" +
                oversubscription + R"(}, {"nodes": 4, "oversubscription": 2}]})"};
}

// Of 16 ranks on 4 nodes.
Sets data_parallel(std::int64_t micro_batches = 1) {
    return {"layout.data_parallel=16", "cluster.nodes=4",
            theory::set("layout.global_batch_size", 16 * micro_batches)};
}
Sets pipelined() {
    return {"layout.pipeline_parallel=2", "layout.data_parallel=4", "layout.tensor_parallel=2",
            "cluster.nodes=4", "layout.global_batch_size=16"};
}

Job job_of(const std::string& name, const Sets& fabric, const Sets& sets, double start_s = 0) {
    const plan::Scenario scenario = theory::scenario(joined(fabric, sets));
    return {name, scenario, plan::build_plan(scenario), profile(), start_s};
}

plan::Cluster shared_cluster(const Job& job, std::int64_t nodes) {
    plan::Cluster cluster = job.scenario.cluster;
    cluster.nodes = nodes;
    return cluster;
}

Picoseconds simulated(const Job& job) {
    SimulateOptions options;
    options.keep_trace = false;
    const Prediction prediction = simulate(job.scenario, job.profile, options, "");
    return prediction.trace.step_end - prediction.trace.step_start;
}

const std::map<std::string, Sets> kJobs = {
    {"data parallel", data_parallel()},
    {"pipelined", pipelined()},
    {"overlapping steps", joined(pipelined(), {"training.optimizer.clip_norm=0"})},
    {"ZeRO-3", joined(data_parallel(), {"layout.zero_stage=3"})},
};

TEST(RunJobs, OneJobAloneIsWhatSimulateSays) {
    for (const auto& [name, sets] : kJobs)
        for (const char* kind : {"fat_tree", "rail"}) {
            const Job job = job_of(name, fabric_sets(kind), sets);
            const plan::Cluster cluster = shared_cluster(job, 8);
            const JobsOutcome outcome = run_jobs(cluster, {job}, {{0, 1, 2, 3}}, {});
            EXPECT_EQ(outcome.jobs[0].alone.length, simulated(job)) << name << ' ' << kind;
            EXPECT_EQ(outcome.jobs[0].shared.mean_s, to_seconds(simulated(job)));
            EXPECT_EQ(outcome.jobs[0].slowdown(), 1);
        }
}

// Through the loop of all jobs, with paths laid: what nothing meets is as it was.
TEST(RunJobs, AJobWithPathsButNoNeighbourIsAsWithout) {
    for (const auto& [name, sets] : kJobs) {
        const Job job = job_of(name, fabric_sets(), sets);
        const AloneStep alone = run_alone(shared_cluster(job, 8), job, {0, 1, 2, 3});
        EXPECT_EQ(alone.step.length, simulated(job)) << name;
        EXPECT_FALSE(alone.links.empty());
    }
}

TEST(RunJobs, JobsThatShareNoLinkAreEachAsAlone) {
    const Job a = job_of("a", fabric_sets(), data_parallel());
    const Job b = job_of("b", fabric_sets(), pipelined());
    const JobsOutcome outcome =
        run_jobs(shared_cluster(a, 8), {a, b}, {{0, 1, 2, 3}, {4, 5, 6, 7}}, {});
    EXPECT_EQ(to_seconds(simulated(a)), outcome.jobs[0].shared.mean_s);
    EXPECT_EQ(to_seconds(simulated(b)), outcome.jobs[1].shared.mean_s);
    EXPECT_TRUE(outcome.links.empty());
    EXPECT_EQ(outcome.fairness(), 1);
}

// Leaves shared by all four, but with as much upwards as comes from below.
TEST(RunJobs, FullBisectionSharesNothing) {
    const Sets full = {"cluster.devices_per_node=4", "cluster.inter_node.nics_per_node=4",
                       R"(cluster.inter_node.fabric={"kind": "fat_tree", )"
                       R"("levels": [{"nodes": 2, "oversubscription": 1}]})"};
    const Job a = job_of("a", full, data_parallel()), b = job_of("b", full, data_parallel());
    const JobsOutcome outcome =
        run_jobs(shared_cluster(a, 8), {a, b}, {{0, 2, 4, 6}, {1, 3, 5, 7}}, {});
    EXPECT_TRUE(outcome.links.empty());
    EXPECT_EQ(outcome.jobs[0].shared.mean_s, to_seconds(outcome.jobs[0].alone.length));
}

// Two equal jobs whose ring of four nodes each passes the same links, begun together: their flows
// are in flight at the same times throughout. Alone each is priced to fill the links it needs, so
// that together each collective between nodes takes twice as long as its bytes do; its latency is
// the same share of its time. What computes, or stays in a node, takes what it took.
TEST(RunJobs, TwoEqualJobsOnTheSameLinksLoseTheTimeTheyCommunicate) {
    const Job a = job_of("a", fabric_sets(), data_parallel());
    const Job b = job_of("b", fabric_sets(), data_parallel());
    const plan::Cluster cluster = shared_cluster(a, 8);
    const NodeList of_a = {0, 2, 4, 6}, of_b = {1, 3, 5, 7};
    const JobsOutcome outcome = run_jobs(cluster, {a, b}, {of_a, of_b}, {});
    const double alone = to_seconds(outcome.jobs[0].alone.length);
    EXPECT_EQ(outcome.jobs[0].shared.mean_s, outcome.jobs[1].shared.mean_s);
    EXPECT_GT(outcome.jobs[0].slowdown(), 1.2);
    EXPECT_LE(outcome.jobs[0].slowdown(), 2);
    // A link that was asked for more than it has gave each half: what the flows lost there is what
    // the step is longer by.
    const AloneStep step = run_alone(cluster, a, of_a);
    double most = 0;  // seconds by which bytes of both exceed what the fullest link carries
    for (const auto& [link, share] : step.links)
        most = std::max(most, share.busy * alone * std::max(0.0, 2 * share.demand - 1));
    EXPECT_GE(outcome.jobs[0].shared.mean_s - alone, most * (1 - 1e-3));
    EXPECT_EQ(outcome.fairness(), 1);
}

// The flows of a folded run are those of all its ranks.
TEST(RunJobs, FoldedIsAsUnfolded) {
    for (const char* kind : {"fat_tree", "rail"})
        for (const auto& [name, sets] : kJobs) {
            const Job a = job_of("a", fabric_sets(kind), sets);
            const Job b = job_of("b", fabric_sets(kind), pipelined(), 1e-4);
            const plan::Cluster cluster = shared_cluster(a, 8);
            const std::vector<NodeList> nodes = {{0, 1, 2, 5}, {3, 4, 6, 7}};
            RunJobsOptions options;
            options.steps = 2;
            const JobsOutcome folded = run_jobs(cluster, {a, b}, nodes, options);
            options.unfolded = true;
            const JobsOutcome unfolded = run_jobs(cluster, {a, b}, nodes, options);
            ASSERT_EQ(folded.stuck, "");
            EXPECT_GT(folded.jobs[0].slowdown(), 1) << name << ' ' << kind;
            for (std::size_t j = 0; j < 2; ++j) {
                EXPECT_EQ(folded.jobs[j].shared.mean_s, unfolded.jobs[j].shared.mean_s)
                    << name << ' ' << kind;
                EXPECT_EQ(unfolded.jobs[j].tracks, 16);
            }
        }
}

void expect_alike(const JobsOutcome& one, const JobsOutcome& other, const std::string& where) {
    ASSERT_EQ(one.jobs.size(), other.jobs.size());
    for (std::size_t j = 0; j < one.jobs.size(); ++j) {
        const SharedStep &a = one.jobs[j].shared, &b = other.jobs[j].shared;
        EXPECT_EQ(std::tie(a.mean_s, a.least_s, a.most_s, a.exposed_s, a.steps),
                  std::tie(b.mean_s, b.least_s, b.most_s, b.exposed_s, b.steps))
            << where;
    }
    ASSERT_EQ(one.links.size(), other.links.size());
    for (std::size_t l = 0; l < one.links.size(); ++l) {
        const LinkOutcome &a = one.links[l], &b = other.links[l];
        EXPECT_EQ(std::tie(a.bytes, a.held_s, a.busy, a.met, a.full),
                  std::tie(b.bytes, b.held_s, b.busy, b.met, b.full))
            << where;
    }
}

// A run that follows what is known of it, and is simulated from there on where links get crowded,
// is the run that is simulated from its beginning.
TEST(RunJobs, WhatIsKnownOfARunIsAsInFull) {
    for (const char* kind : {"fat_tree", "rail"})
        for (const auto& [name, sets] : kJobs)
            for (const double start_s : {0.0, 1e-4, 1e-2}) {
                const Job a = job_of("a", fabric_sets(kind), sets);
                const Job b = job_of("b", fabric_sets(kind), pipelined(), start_s);
                const plan::Cluster cluster = shared_cluster(a, 8);
                const std::vector<NodeList> nodes = {{0, 1, 2, 5}, {3, 4, 6, 7}};
                RunJobsOptions options;
                const JobsOutcome known = run_jobs(cluster, {a, b}, nodes, options);
                options.in_full = true;
                const JobsOutcome in_full = run_jobs(cluster, {a, b}, nodes, options);
                expect_alike(known, in_full, name + ' ' + kind);
                EXPECT_GT(known.jobs[0].slowdown(), 1) << name << ' ' << kind;
            }
}

// Gradients meet at the end of a step of many micro-batches: what comes before is simulated once.
TEST(RunJobs, StepsAreSimulatedOnlyFromWhereLinksAreCrowded) {
    const Job a = job_of("a", fabric_sets(), data_parallel(64));
    const Job b = job_of("b", fabric_sets(), data_parallel(64), 1e-3);
    const plan::Cluster cluster = shared_cluster(a, 8);
    const std::vector<NodeList> nodes = {{0, 1, 2, 5}, {3, 4, 6, 7}};
    RunJobsOptions options;
    options.steps = 8;
    const JobsOutcome known = run_jobs(cluster, {a, b}, nodes, options);
    options.in_full = true;
    const JobsOutcome in_full = run_jobs(cluster, {a, b}, nodes, options);
    EXPECT_GT(known.jobs[0].slowdown(), 1);
    expect_alike(known, in_full, "");
    EXPECT_LT(2 * known.op_events, in_full.op_events);
}

// What a link carries in the window is what the jobs' steps put on it, however long they took.
TEST(RunJobs, BytesPerLinkAreConserved) {
    const Job a = job_of("a", fabric_sets(), data_parallel());
    const Job b = job_of("b", fabric_sets(), data_parallel());
    const plan::Cluster cluster = shared_cluster(a, 8);
    const std::vector<NodeList> nodes = {{0, 2, 4, 6}, {1, 3, 5, 7}};
    const JobsOutcome outcome = run_jobs(cluster, {a, b}, nodes, {});
    ASSERT_FALSE(outcome.links.empty());
    for (const LinkOutcome& link : outcome.links)
        for (std::size_t i = 0; i < link.jobs.size(); ++i) {
            const auto j = static_cast<std::size_t>(link.jobs[i]);
            const AloneStep alone = run_alone(cluster, j == 0 ? a : b, nodes[j]);
            const LinkShare& share = alone.links.at(link.link);
            const double a_step =
                share.busy * to_seconds(alone.step.run) * share.demand * link.GBps * 1e9;
            const double steps = static_cast<double>(outcome.jobs[j].shared.steps);
            EXPECT_NEAR(link.bytes[i], steps * a_step, 1e-5 * steps * a_step);
            EXPECT_LE(link.carried, 1 + 1e-9);
        }
}

// Begun half a step apart the two meet less: phases count.
TEST(RunJobs, AShiftThatPartsTheirPhasesHelps) {
    const Sets fabric = fabric_sets();
    const Sets sets = data_parallel(16);  // computes most of the time
    const Job a = job_of("a", fabric, sets);
    const plan::Cluster cluster = shared_cluster(a, 8);
    const std::vector<NodeList> nodes = {{0, 2, 4, 6}, {1, 3, 5, 7}};
    const double alone = to_seconds(run_alone(cluster, a, nodes[0]).step.length);
    const auto slowdown = [&](double start_s) {
        return run_jobs(cluster, {a, job_of("b", fabric, sets, start_s)}, nodes, {})
            .jobs[0]
            .slowdown();
    };
    EXPECT_LE(slowdown(alone / 2), slowdown(0));
}

TEST(RunJobs, TheCoarseLookIsNotEarly) {
    const Job a = job_of("a", fabric_sets(), pipelined());
    const Job b = job_of("b", fabric_sets(), data_parallel());
    const plan::Cluster cluster = shared_cluster(a, 8);
    const std::vector<NodeList> nodes = {{0, 1, 2, 5}, {3, 4, 6, 7}};
    RunJobsOptions options;
    const JobsOutcome exact = run_jobs(cluster, {a, b}, nodes, options);
    options.coarse = true;
    const JobsOutcome coarse = run_jobs(cluster, {a, b}, nodes, options);
    EXPECT_GE(coarse.jobs[0].shared.mean_s, exact.jobs[0].shared.mean_s * (1 - 1e-2));
    EXPECT_LE(coarse.jobs[0].tracks, exact.jobs[0].tracks);
}

PlaceSearchResult searched(const std::vector<Job>& jobs, const std::vector<NodeList>& given) {
    PlaceSearchOptions options;
    options.run.steps = 2;
    return search_places(shared_cluster(jobs[0], 8), jobs, given,
                         std::vector<bool>(jobs.size(), false), options);
}

// Two jobs that were given every second node fit beside each other, with no link in common.
TEST(PlaceSearch, PartsJobsThatCanBeParted) {
    const std::vector<Job> jobs = {job_of("a", fabric_sets(), data_parallel()),
                                   job_of("b", fabric_sets(), data_parallel())};
    const PlaceSearchResult result = searched(jobs, {{0, 2, 4, 6}, {1, 3, 5, 7}});
    EXPECT_EQ(result.simulated.front().score, 2);
    EXPECT_EQ(result.simulated.front().slowdowns, (std::vector<double>{1, 1}));
    EXPECT_GT(result.simulated.back().score, 2);
}

TEST(PlaceSearch, DoesNotDependOnTheNumberOfThreads) {
    const std::vector<Job> jobs = {job_of("a", fabric_sets(), data_parallel()),
                                   job_of("b", fabric_sets(), pipelined())};
    const std::vector<NodeList> given = {{0, 1, 2, 5}, {3, 4, 6, 7}};
    const PlaceSearchResult many = searched(jobs, given);
    const oneapi::tbb::global_control one(oneapi::tbb::global_control::max_allowed_parallelism, 1);
    const PlaceSearchResult single = searched(jobs, given);
    ASSERT_EQ(many.simulated.size(), single.simulated.size());
    for (std::size_t i = 0; i < many.simulated.size(); ++i) {
        EXPECT_EQ(many.simulated[i].candidate.nodes, single.simulated[i].candidate.nodes);
        EXPECT_EQ(many.simulated[i].slowdowns, single.simulated[i].slowdowns);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
