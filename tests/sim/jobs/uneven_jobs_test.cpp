// Jobs on nodes that are not alike: of several kinds, slow, or with kernels that vary. A job is
// what simulate says of a cluster made of its nodes; only who has a slow node is slowed.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "sim/engine/drawn_cluster.hpp"
#include "sim/jobs/job_on_nodes.hpp"
#include "sim/jobs/place_search.hpp"
#include "sim/jobs/run_jobs.hpp"
#include "sim/prediction.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

// Leaves of two nodes of four devices each; adapters so slow that gradients take most of a step.
const std::string kFabric = R"("inter_node": {"kind": "infiniband", "nics_per_node": 4,
    "bandwidth_Gbps": 2, "latency_us": 5, "fabric": {"kind": "fat_tree", "switch_latency_us": 1,
    "levels": [{"nodes": 2, "oversubscription": 4}, {"nodes": 4, "oversubscription": 2}]}})";

std::string nodes_of(const std::string& device, std::int64_t nodes) {
    return R"("nodes": )" + std::to_string(nodes) + R"(, "devices_per_node": 4, "device": ")" +
           device + R"(", "profile": "profiles/)" + device + R"(.json", "intra_node": {"kind":
           "nvswitch", "bandwidth_GBps": 300, "latency_us": 2}, )" +
           kFabric;
}

Sets cluster_of(std::int64_t nodes, const std::string& more = "") {
    return {"cluster={" + nodes_of("a100-80gb-sxm", nodes) + (more.empty() ? "" : ", ") + more +
            "}"};
}

Sets mixed_cluster(std::int64_t a100, std::int64_t h100, const std::string& more = "") {
    return cluster_of(a100, R"("other_nodes": [{)" + nodes_of("h100-sxm", h100) + "}]" +
                                (more.empty() ? "" : ", ") + more);
}

// Of 16 ranks on 4 nodes.
const Sets kDataParallel = {"layout.data_parallel=16", "layout.global_batch_size=16"};
const Sets kPipelined = {"layout.pipeline_parallel=2", "layout.data_parallel=4",
                         "layout.tensor_parallel=2", "layout.global_batch_size=16"};
const std::map<std::string, Sets> kLayouts = {
    {"data parallel", kDataParallel},
    {"pipelined", kPipelined},
    {"overlapping steps", joined(kPipelined, {"training.optimizer.clip_norm=0"})},
};

const std::map<std::string, std::string> kUneven = {
    {"a slow device", R"("slow_devices": [{"device": 5, "factor": 1.5}])"},
    {"a slow node", R"("slow_nodes": [{"node": 2, "factor": 1.3}])"},
    {"a slow adapter", R"("slow_links": [{"device": 9, "link": "inter_node", "factor": 3}])"},
    {"slow links in a node", R"("slow_links": [{"node": 1, "link": "intra_node", "factor": 5}])"},
    {"by chance", R"("stragglers": {"slow": [{"of": "device", "share": 0.2, "factor": 1.4}],
                      "common_sd": 0.05, "seed": 3})"},
    {"kernels that vary", R"("jitter": {"distribution": "lognormal", "relative_sd": 0.2,
                              "seed": 7})"},
    {"devices that vary", R"("jitter": {"distribution": "normal", "relative_sd": 0.2,
                              "per": "device"})"},
};

plan::Scenario scenario_of(const Sets& cluster, const Sets& layout) {
    return theory::scenario(joined(cluster, layout));
}

// As the reader makes one of a scenario and the shared cluster that it runs on.
Job job_of(const std::string& name, const plan::Cluster& shared, const Sets& layout,
           double start_s = 0) {
    const plan::Scenario scenario = scenario_of(cluster_of(4), layout);
    return {name, scenario, plan::build_plan(scenario), load_profiles(shared), start_s};
}

plan::Cluster shared_of(const Sets& cluster) {
    return scenario_of(cluster, kDataParallel).cluster;
}

// Where it does not count where nodes hang.
plan::Cluster without_switches(plan::Cluster cluster) {
    cluster.inter_node.fabric = {};
    for (plan::Cluster& others : cluster.other_nodes)
        others.inter_node.fabric = {};
    return cluster;
}

Picoseconds simulated(const plan::Scenario& scenario) {
    SimulateOptions options;
    options.keep_trace = false;
    options.part_waiting = false;
    const Prediction prediction = simulate(scenario, load_profiles(scenario.cluster), options, "");
    return prediction.trace.step_end - prediction.trace.step_start;
}

TEST(UnevenJobs, OneJobAloneIsWhatSimulateSays) {
    RunJobsOptions options;
    options.steps = 1;
    for (const auto& [what, uneven] : kUneven)
        for (const auto& [how, layout] : kLayouts) {
            const plan::Scenario scenario = scenario_of(cluster_of(4, uneven), layout);
            const Job job = job_of("a", scenario.cluster, layout);
            const JobsOutcome outcome = run_jobs(scenario.cluster, {job}, {{0, 1, 2, 3}}, options);
            EXPECT_EQ(outcome.jobs[0].alone.length, simulated(scenario)) << what << ", " << how;
            EXPECT_EQ(outcome.jobs[0].shared.mean_s, to_seconds(simulated(scenario)));
            EXPECT_EQ(outcome.jobs[0].slowdown(), 1);
            const AloneStep on_paths = run_alone(scenario.cluster, job, {0, 1, 2, 3});
            EXPECT_EQ(on_paths.step.length, simulated(scenario)) << what << ", " << how;
        }
}

// On nodes of both kinds, of one, and with a slow device among them: the cluster that simulate gets
// is told node by node.
TEST(UnevenJobs, OnMixedNodesAJobIsWhatSimulateSaysOfThem) {
    struct Case {
        NodeList nodes;
        Sets as_told;
    };
    const std::string slow = R"("slow_devices": [{"device": 13, "factor": 1.5}])";
    const Case cases[] = {
        {{0, 1, 4, 5}, mixed_cluster(2, 2)},
        {{1, 2, 3, 5}, mixed_cluster(3, 1, R"("slow_devices": [{"device": 9, "factor": 1.5}])")},
        {{0, 1, 2, 3}, cluster_of(4, slow)},
        {{4, 5, 6, 7}, {"cluster={" + nodes_of("h100-sxm", 4) + "}"}},
    };
    const plan::Cluster shared = without_switches(shared_of(mixed_cluster(4, 4, slow)));
    for (const auto& [how, layout] : kLayouts)
        for (const Case& on : cases) {
            plan::Scenario told = scenario_of(on.as_told, layout);
            told.cluster = without_switches(told.cluster);
            const Job job = job_of("a", shared, layout);
            const JobsOutcome outcome = run_jobs(shared, {job}, {on.nodes}, {});
            EXPECT_EQ(outcome.jobs[0].alone.length, simulated(told)) << how << on.nodes.front();
        }
}

// The whole of a mixed fabric with switches.
TEST(UnevenJobs, OneJobOnAllOfAMixedFabricIsWhatSimulateSays) {
    for (const auto& [how, layout] : kLayouts) {
        const plan::Scenario scenario = scenario_of(mixed_cluster(1, 3), layout);
        const Job job = job_of("a", scenario.cluster, layout);
        const JobsOutcome outcome = run_jobs(scenario.cluster, {job}, {{0, 1, 2, 3}}, {});
        EXPECT_EQ(outcome.jobs[0].alone.length, simulated(scenario)) << how;
    }
}

TEST(UnevenJobs, OnlyWhoHasTheSlowNodeIsSlowed) {
    const plan::Cluster shared =
        shared_of(cluster_of(8, R"("slow_nodes": [{"node": 1, "factor": 2}])"));
    const std::vector<Job> jobs = {job_of("a", shared, kDataParallel),
                                   job_of("b", shared, kDataParallel)};
    const JobsOutcome outcome = run_jobs(shared, jobs, {{0, 1, 2, 3}, {4, 5, 6, 7}}, {});
    const plan::Scenario even = scenario_of(cluster_of(4), kDataParallel);
    EXPECT_EQ(outcome.jobs[1].alone.length, simulated(even));
    const plan::Scenario slow =
        scenario_of(cluster_of(4, R"("slow_nodes": [{"node": 1, "factor": 2}])"), kDataParallel);
    EXPECT_EQ(outcome.jobs[0].alone.length, simulated(slow));
    EXPECT_GT(outcome.jobs[0].alone.length, outcome.jobs[1].alone.length);
    EXPECT_GT(outcome.jobs[0].tracks, outcome.jobs[1].tracks) << "ranks that it parts";
}

const std::vector<NodeList> kCrossing = {{0, 1, 2, 5}, {3, 4, 6, 7}};

JobsOutcome crossing(const plan::Cluster& shared, const Sets& layout,
                     const RunJobsOptions& options) {
    return run_jobs(shared, {job_of("a", shared, layout), job_of("b", shared, kPipelined, 1e-4)},
                    kCrossing, options);
}

TEST(UnevenJobs, FoldedIsAsUnfolded) {
    const Sets clusters[] = {
        cluster_of(8, kUneven.at("a slow device")), cluster_of(8, kUneven.at("a slow adapter")),
        cluster_of(8, kUneven.at("by chance")), mixed_cluster(5, 3, kUneven.at("a slow node"))};
    for (const Sets& cluster : clusters)
        for (const auto& [how, layout] : kLayouts) {
            const plan::Cluster shared = shared_of(cluster);
            RunJobsOptions options;
            options.steps = 2;
            const JobsOutcome folded = crossing(shared, layout, options);
            options.unfolded = true;
            const JobsOutcome unfolded = crossing(shared, layout, options);
            for (std::size_t j = 0; j < 2; ++j) {
                EXPECT_EQ(folded.jobs[j].shared.mean_s, unfolded.jobs[j].shared.mean_s) << how;
                EXPECT_EQ(unfolded.jobs[j].tracks, 16);
            }
            EXPECT_GT(folded.jobs[1].slowdown(), 1) << how;
        }
}

// A step that begins by its record and goes on where links get crowded is the one that is simulated
// from its beginning; where kernels vary each has a record of its own.
TEST(UnevenJobs, WhatIsKnownOfARunIsAsInFull) {
    for (const char* what : {"a slow device", "kernels that vary", "devices that vary"})
        for (const auto& [how, layout] : kLayouts) {
            const plan::Cluster shared = shared_of(cluster_of(8, kUneven.at(what)));
            RunJobsOptions options;
            options.steps = 3;
            const JobsOutcome known = crossing(shared, layout, options);
            options.in_full = true;
            const JobsOutcome in_full = crossing(shared, layout, options);
            for (std::size_t j = 0; j < 2; ++j) {
                const SharedStep &a = known.jobs[j].shared, &b = in_full.jobs[j].shared;
                EXPECT_EQ(std::tie(a.mean_s, a.least_s, a.most_s, a.exposed_s, a.steps),
                          std::tie(b.mean_s, b.least_s, b.most_s, b.exposed_s, b.steps))
                    << what << ", " << how;
                EXPECT_EQ(known.jobs[j].alone_mean_s, in_full.jobs[j].alone_mean_s);
                EXPECT_GT(known.jobs[j].slowdown(), 1) << what << ", " << how;
            }
        }
}

// Step k of a job is what simulate says with a seed that is higher by k, and no other.
TEST(UnevenJobs, EachStepDrawsItsKernelsAnew) {
    const std::string jitter = kUneven.at("kernels that vary");
    const plan::Scenario scenario = scenario_of(cluster_of(4, jitter), kPipelined);
    RunJobsOptions options;
    options.steps = 5;
    const Job job = job_of("a", scenario.cluster, kPipelined);
    const JobOutcome of = run_jobs(scenario.cluster, {job}, {{0, 1, 2, 3}}, options).jobs[0];
    Picoseconds sum = 0, least = kLongestStep, most = 0;
    for (std::int64_t step = 0; step < options.steps; ++step) {
        plan::Scenario drawn = scenario;
        drawn.cluster = with_draw(scenario.cluster, step);
        const Picoseconds length = simulated(drawn);
        sum += length;
        least = std::min(least, length);
        most = std::max(most, length);
    }
    EXPECT_EQ(of.shared.mean_s, to_seconds(sum) / options.steps);
    EXPECT_EQ(of.shared.least_s, to_seconds(least));
    EXPECT_EQ(of.shared.most_s, to_seconds(most));
    EXPECT_LT(least, most);
    EXPECT_EQ(of.slowdown(), 1);
    EXPECT_EQ(of.alone.length, simulated(scenario));
}

// Two jobs of one layout do not draw alike; what a device draws is its own, whoever has it.
TEST(UnevenJobs, DevicesDrawWhateverRankIsOnThem) {
    const plan::Cluster kernels = shared_of(cluster_of(8, kUneven.at("kernels that vary")));
    const Job job = job_of("a", kernels, kDataParallel);
    const Picoseconds first = run_alone(kernels, job, {0, 1, 2, 3}).step.length;
    EXPECT_NE(first, run_alone(kernels, job, {4, 5, 6, 7}).step.length);
    const plan::Cluster devices = shared_of(cluster_of(8, kUneven.at("devices that vary")));
    const std::vector<double> slowness = slowness_of_nodes(drawn_cluster(devices));
    for (std::int64_t node = 0; node < 8; ++node) {
        const plan::Cluster own = cluster_of_nodes(devices, {node});
        EXPECT_EQ(own.nodes, 1);
        EXPECT_EQ(own.jitter, devices.jitter);
        EXPECT_NE(slowness[static_cast<std::size_t>(node)], 1);
    }
}

// With 1/4 of an adapter's bandwidth a step puts the same bytes on a link, slower.
TEST(UnevenJobs, SlowAdaptersPutTheSameBytesOnLinks) {
    const plan::Cluster even = shared_of(cluster_of(8));
    const plan::Cluster slow = shared_of(
        cluster_of(8, R"("slow_links": [{"node": 2, "link": "inter_node", "factor": 4}])"));
    const NodeList nodes = {0, 2, 4, 6};
    for (const Sets& layout : {kDataParallel, kPipelined}) {
        const AloneStep a = run_alone(even, job_of("a", even, layout), nodes);
        const AloneStep b = run_alone(slow, job_of("a", slow, layout), nodes);
        EXPECT_GT(b.step.length, a.step.length);
        ASSERT_EQ(a.links.size(), b.links.size());
        const auto bytes = [](const AloneStep& of, const LinkShare& link) {
            return link.busy * to_seconds(of.step.run) * link.demand;
        };
        for (const auto& [link, share] : a.links) {
            const LinkShare& slower = b.links.at(link);
            EXPECT_NEAR(bytes(a, share), bytes(b, slower), 1e-4 * bytes(a, share));
            EXPECT_LE(slower.demand, share.demand * (1 + 1e-9));
        }
    }
}

// What links carry does not hang on which job stands first: also one that sends nothing.
TEST(UnevenJobs, AJobWithinANodeChangesNothing) {
    const plan::Cluster shared = shared_of(cluster_of(9));
    const Sets small = {"layout.data_parallel=4", "layout.global_batch_size=16"};
    plan::Scenario scenario = scenario_of(cluster_of(1), small);
    const Job within = {"one node", scenario, plan::build_plan(scenario), load_profiles(shared), 0};
    const std::vector<Job> two = {job_of("a", shared, kDataParallel),
                                  job_of("b", shared, kPipelined, 1e-4)};
    const JobsOutcome without = run_jobs(shared, two, kCrossing, {});
    const JobsOutcome with =
        run_jobs(shared, {within, two[0], two[1]}, {{8}, kCrossing[0], kCrossing[1]}, {});
    for (std::size_t j = 0; j < 2; ++j)
        EXPECT_EQ(with.jobs[j + 1].shared.mean_s, without.jobs[j].shared.mean_s);
    ASSERT_EQ(with.links.size(), without.links.size());
    for (std::size_t l = 0; l < with.links.size(); ++l)
        EXPECT_EQ(with.links[l].GBps, without.links[l].GBps);
}

PlaceSearchResult searched(const plan::Cluster& shared, const std::vector<Job>& jobs,
                           const std::vector<NodeList>& given) {
    PlaceSearchOptions options;
    options.run.steps = 1;
    return search_places(shared, jobs, given, std::vector<bool>(jobs.size(), false), options);
}

// Eight nodes, of which one of the job's four is slow: it moves to the four that are not.
TEST(UnevenPlaceSearch, LeavesASlowNodeToNobody) {
    for (const char* uneven :
         {R"("slow_nodes": [{"node": 1, "factor": 2}])",
          R"("slow_devices": [{"device": 6, "factor": 3}])",
          R"("slow_links": [{"node": 0, "link": "inter_node", "factor": 4}])"}) {
        const plan::Cluster shared = shared_of(cluster_of(8, uneven));
        const PlaceSearchResult result =
            searched(shared, {job_of("a", shared, kDataParallel)}, {{0, 1, 2, 3}});
        EXPECT_EQ(result.simulated.front().candidate.nodes[0], (NodeList{4, 5, 6, 7})) << uneven;
        EXPECT_EQ(result.simulated.front().score, 1) << uneven;
        EXPECT_GT(result.simulated.back().score, 1) << uneven;
    }
}

// Two jobs need all of a cluster with two slow nodes, on a network where it does not count which
// nodes they have: a job is as slow as its slowest node, so one that has both costs the sum 1 + s,
// two that have one each 2 s.
TEST(UnevenPlaceSearch, PutsSlowNodesIntoOneJob) {
    const plan::Cluster shared = without_switches(shared_of(
        cluster_of(8, R"("slow_nodes": [{"node": 0, "factor": 2}, {"node": 7, "factor": 2}])")));
    const std::vector<Job> jobs = {job_of("a", shared, kDataParallel),
                                   job_of("b", shared, kDataParallel)};
    const double s = to_seconds(run_alone(shared, jobs[0], {0, 1, 2, 3}).step.length) /
                     to_seconds(run_alone(shared, jobs[0], {1, 2, 3, 4}).step.length);
    const PlaceSearchResult result = searched(shared, jobs, {{0, 1, 2, 3}, {4, 5, 6, 7}});
    EXPECT_GT(s, 1);
    EXPECT_NEAR(result.simulated.front().score, 1 + s, 1e-12);
    for (const SimulatedPlaces& one : result.simulated)
        if (one.candidate.how == "as given") {
            EXPECT_NEAR(one.score, 2 * s, 1e-12);
        }
}

// A job that may run anywhere gets the faster devices, one that names the slower ones keeps these.
TEST(UnevenPlaceSearch, UsesTheDevicesThatAJobIsFastestOn) {
    const plan::Cluster shared = shared_of(mixed_cluster(6, 4));
    std::vector<Job> jobs = {job_of("any", shared, kPipelined), job_of("a100", shared, kPipelined)};
    jobs[1].kinds = {0};
    const PlaceSearchResult result = searched(shared, jobs, {{2, 3, 6, 7}, {0, 1, 4, 5}});
    EXPECT_EQ(result.simulated.front().candidate.nodes[0], (NodeList{6, 7, 8, 9}));
    for (const SimulatedPlaces& one : result.simulated)
        for (const std::int64_t node : one.candidate.nodes[1])
            EXPECT_LT(node, 6) << one.candidate.how;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
