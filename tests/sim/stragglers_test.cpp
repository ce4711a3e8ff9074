// Devices, nodes and links that are slow: folding keeps seeing only what differs, and tells the
// same as every rank for itself; what a slow link costs is what a slower network costs; what
// stragglers cost a step, and which one is worst; how steps of many draws are spread.
#include "sim/stragglers.hpp"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <random>

#include "sim/engine/drawn_cluster.hpp"
#include "sim/engine/fold.hpp"
#include "sim/machine.hpp"
#include "sim/network/group_shape.hpp"
#include "tests/sim/random_layouts.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::StragglerOf;
using theory::set;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

Prediction step_of(const Sets& sets) {
    return simulate(theory::scenario(sets), profile(), {}, "");
}

// `count` slow devices, nodes or links at random places, of factors of three decimal places.
std::string random_slow(std::mt19937& random, const char* what, std::int64_t among, int count,
                        const std::string& more = "") {
    std::set<std::int64_t> named;
    while (static_cast<int>(named.size()) < count)
        named.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(among)));
    std::string list;
    for (const std::int64_t one : named)
        list += (list.empty() ? "" : ", ") + std::string(R"({")") + what + R"(": )" +
                std::to_string(one) + R"(, "factor": )" +
                std::to_string(1 + static_cast<double>(random() % 1000) / 1000) + more + "}";
    return "[" + list + "]";
}

struct Layout {
    std::int64_t tensor, context, data, pipeline, devices_per_node;
    Sets more;
};

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all = {
        {4, 1, 4, 2, 8, {}},
        {1, 1, 8, 4, 8, {"layout.schedule=gpipe"}},
        {2, 2, 2, 4, 8, {"layout.schedule=1f1b"}},
        {2, 1, 8, 1, 4, {"layout.zero_stage=3"}},
        {2, 1, 4, 2, 3, {"layout.sequence_parallel=true", "layout.zero_stage=1"}},
        {1, 4, 4, 1, 8, {"layout.context_algorithm=all_gather"}},
        {2, 1, 4, 2, 8, {"layout.virtual_pipeline=2", "layout.schedule=interleaved"}},
        {1, 1, 4, 4, 4, {"layout.schedule=zb-h1", "cluster.inter_node.nics_per_node=4"}},
    };
    return all;
}

Sets sets_of(const Layout& of, std::int64_t micro_batches = 4) {
    return joined(
        joined(
            world(of.tensor * of.context * of.data * of.pipeline, of.devices_per_node),
            {set("layout.tensor_parallel", of.tensor), set("layout.context_parallel", of.context),
             set("layout.data_parallel", of.data), set("layout.pipeline_parallel", of.pipeline),
             set("layout.global_batch_size", micro_batches * of.data)}),
        of.more);
}

TEST(Stragglers, AtRandomPlacesFoldToWhatEveryRankForItselfTells) {
    std::mt19937 random(7);
    for (const Layout& layout : layouts()) {
        const std::int64_t ranks = layout.tensor * layout.context * layout.data * layout.pipeline;
        const std::int64_t nodes = (ranks + layout.devices_per_node - 1) / layout.devices_per_node;
        const Sets sets =
            joined(sets_of(layout),
                   {"cluster.slow_devices=" + random_slow(random, "device", ranks, 2),
                    "cluster.slow_nodes=" + random_slow(random, "node", nodes, 1),
                    "cluster.slow_links=" +
                        random_slow(random, "device", ranks, 2,
                                    random() % 2 == 0 && layout.devices_per_node > 1
                                        ? R"(, "link": "intra_node")"
                                        : (nodes > 1 ? "" : R"(, "link": "intra_node")"))});
        EXPECT_EQ(folding_fault(theory::scenario(sets), profile()), "")
            << testing::PrintToString(sets);
    }
}

// 1,024 ranks: tensor 4, context 2, data 32, pipeline 4.
TEST(Stragglers, FoldToThePicosecondAtAThousandRanks) {
    std::mt19937 random(3);
    const Sets sets = joined(sets_of({4, 2, 32, 4, 8, {}}, 2),
                             {"cluster.slow_devices=" + random_slow(random, "device", 1024, 5),
                              "cluster.slow_links=" + random_slow(random, "node", 128, 2)});
    const plan::Scenario asked = theory::scenario(sets);
    SimulateOptions folded, unfolded;
    folded.keep_trace = unfolded.keep_trace = folded.part_waiting = unfolded.part_waiting = false;
    unfolded.unfolded = true;
    const Prediction few = simulate(asked, profile(), folded, "");
    const Prediction all = simulate(asked, profile(), unfolded, "");
    EXPECT_LT(few.trace.tracks.size(), 300U);
    ASSERT_EQ(all.trace.tracks.size(), 1024U);
    EXPECT_EQ(few.trace.step_start, all.trace.step_start);
    EXPECT_EQ(few.trace.step_end, all.trace.step_end);
    for (std::size_t t = 0; t < few.trace.tracks.size(); ++t)
        EXPECT_EQ(few.sums.accounts[t],
                  all.sums.accounts[static_cast<std::size_t>(few.trace.tracks[t].rank)]);
}

// A slow node holds a whole tensor group. Wherever it is in its stage, what differs from the rest
// is its pipeline: at most as many classes as stages, and as many again of the others.
TEST(Stragglers, OneSlowNodePartsOnePipelineFromTheRest) {
    const Sets even = sets_of({8, 1, 16, 4, 8, {"model.n_head=8"}});
    const plan::Mesh mesh = plan::build_plan(theory::scenario(even)).mesh;
    const auto classes = [&](const Sets& more) {
        return fold_ranks(mesh, theory::scenario(joined(even, more)).cluster, false).members.size();
    };
    EXPECT_EQ(classes({}), 4U);
    EXPECT_EQ(classes({R"(cluster.slow_nodes=[{"node": 21, "factor": 1.1}])"}), 8U);
    EXPECT_EQ(classes({R"(cluster.slow_nodes=[{"node": 17, "factor": 1.1},
                                              {"node": 30, "factor": 1.1}])"}),
              8U);  // of one stage: pipelines that are alike
}

// On a device alone all is compute: twice the time for its kernels, and nothing waits.
TEST(Stragglers, CostWhatTheirKernelsTakeMore) {
    const Sets alone = joined(world(1, 1), {"layout.global_batch_size=4"});
    const Prediction slow =
        step_of(joined(alone, {R"(cluster.slow_devices=[{"device": 0, "factor": 2}])"}));
    const Prediction even = step_of(alone);
    ASSERT_TRUE(slow.step.stragglers.has_value());
    EXPECT_FALSE(even.step.stragglers.has_value());
    const StragglerCost& cost = *slow.step.stragglers;
    EXPECT_EQ(cost.even_s, even.step.time_s);
    double added = 0;
    for (const double of_account : cost.added_s)
        added += of_account;
    EXPECT_NEAR(added, slow.step.time_s - even.step.time_s, 1e-12);
    ASSERT_TRUE(cost.worst.has_value());
    EXPECT_EQ(cost.worst->alone_added_s, slow.step.time_s - even.step.time_s);
}

// Ranks of another stage wait for a slow one as ranks of its own do: not for the schedule.
TEST(Stragglers, LandInImbalanceInWhateverStage) {
    const Sets even = sets_of({1, 1, 2, 4, 8, {}}, 8);
    const Prediction slow =
        step_of(joined(even, {R"(cluster.slow_devices=[{"device": 3, "factor": 3}])"}));
    const auto of = [&](trace::Account account) {
        return slow.step.stragglers->added_s[static_cast<std::size_t>(account)];
    };
    EXPECT_GT(of(trace::Account::imbalance), 0);
    EXPECT_LE(of(trace::Account::bubble), 0);
    EXPECT_GT(of(trace::Account::imbalance), of(trace::Account::compute));
}

// The slowest of each kind is tried alone; of a device and a node that differ, the one that costs
// more.
TEST(Stragglers, TheWorstIsTheOneThatCostsMostAlone) {
    const Sets even = sets_of({2, 1, 4, 2, 8, {}});
    const Prediction slow = step_of(joined(
        even,
        {R"(cluster.slow_devices=[{"device": 3, "factor": 1.2}, {"device": 5, "factor": 1.1}])",
         R"(cluster.slow_nodes=[{"node": 1, "factor": 1.5}])"}));
    const StragglerCost& cost = *slow.step.stragglers;
    EXPECT_EQ(cost.slow_devices, 2);
    EXPECT_EQ(cost.slow_nodes, 1);
    ASSERT_TRUE(cost.worst.has_value());
    EXPECT_EQ(cost.worst->of, StragglerOf::node);
    EXPECT_EQ(cost.worst->rank, 8);
    const Prediction alone =
        step_of(joined(even, {R"(cluster.slow_nodes=[{"node": 1, "factor": 1.5}])"}));
    EXPECT_EQ(cost.worst->alone_added_s, alone.step.time_s - cost.even_s);
}

TEST(Stragglers, BeyondTheLayoutCostNothing) {
    const Sets even = joined(sets_of({1, 1, 4, 1, 8, {}}), {"cluster.nodes=2"});
    const Prediction slow =
        step_of(joined(even, {R"(cluster.slow_devices=[{"device": 9, "factor": 3}])"}));
    EXPECT_EQ(slow.step.time_s, slow.step.stragglers->even_s);
    EXPECT_FALSE(slow.step.stragglers->worst.has_value());
}

// Data-parallel ranks, one a node: the ring goes at the pace of its slowest adapter, so that it
// takes what it takes where all adapters are as slow. Those of other groups keep their pace.
TEST(SlowLink, ARingGoesAtThePaceOfItsSlowestAdapter) {
    const Sets even =
        joined(sets_of({1, 1, 4, 1, 1, {}}), {"cluster.inter_node.bandwidth_Gbps=100"});
    const double slow =
        step_of(joined(even, {R"(cluster.slow_links=[{"node": 2, "factor": 4}])"})).step.time_s;
    const double all_slow =
        step_of(joined(even, {"cluster.inter_node.bandwidth_Gbps=25"})).step.time_s;
    EXPECT_EQ(slow, all_slow);
    EXPECT_GT(slow, step_of(even).step.time_s);
}

TEST(SlowLink, WithinANodeSlowsTheGroupThatUsesIt) {
    const Sets even = sets_of({4, 1, 2, 1, 8, {}});
    const double slow = step_of(joined(even, {R"(cluster.slow_links=[{"device": 5, "factor": 3,
                                                      "link": "intra_node"}])"}))
                            .step.time_s;
    const double all_slow = step_of(joined(even, {R"(cluster.slow_links=[{"node": 0, "factor": 3,
                                                      "link": "intra_node"}])"}))
                                .step.time_s;
    EXPECT_GT(slow, step_of(even).step.time_s);
    EXPECT_EQ(slow, all_slow);  // whoever is not slow waits for those that are
}

// Eight devices with an adapter each: a data group of the first devices of nodes does not use that
// of the last. With one adapter for all, all groups do.
TEST(SlowLink, IsThatOfTheDevicesWhichShareTheAdapter) {
    plan::Cluster cluster = theory::scenario(world(16, 8)).cluster;
    cluster.slow_links = {{7, -1, plan::LinkOf::inter_node, 2}};
    const std::vector<std::vector<std::int64_t>> groups = {{0, 8}, {7, 15}};
    cluster.inter_node.nics_per_node = 8;
    EXPECT_TRUE(shapes_of(groups, cluster)[0].slow.empty());
    EXPECT_EQ(shapes_of(groups, cluster)[1].slow, (std::vector<SlowLinks>{{0, 1, 2}}));
    cluster.inter_node.nics_per_node = 1;
    EXPECT_EQ(shapes_of(groups, cluster)[0].slow, (std::vector<SlowLinks>{{0, 1, 2}}));
}

// Adapters that send half of what they could lose nothing above a leaf that carries a third.
TEST(SlowLink, BehindANarrowerUplinkCostsNothing) {
    const Sets even =
        joined(sets_of({1, 1, 4, 1, 1, {}}), {"cluster.inter_node.oversubscription=3"});
    const auto with = [&](const char* factor) {
        return step_of(joined(even, {std::string(R"(cluster.slow_links=[{"node": 1, "factor": )") +
                                     factor + "}]"}))
            .step.time_s;
    };
    EXPECT_LE(with("2"), step_of(even).step.time_s * (1 + 1e-9));
    EXPECT_GT(with("6"), step_of(even).step.time_s);
}

// Of n devices n·share are slow, give or take √(n·share·(1 − share)): five times that is never met
// by luck.
TEST(DrawnCluster, HasTheShareOfSlowDevicesAskedFor) {
    plan::Cluster cluster;
    cluster.nodes = 2500;
    cluster.devices_per_node = 8;
    cluster.stragglers.slow = {{StragglerOf::device, 0.1, 1.2}, {StragglerOf::node, 0.02, 1.1}};
    const plan::Cluster drawn = drawn_cluster(cluster);
    EXPECT_NEAR(static_cast<double>(drawn.slow_devices.size()), 2000, 5 * std::sqrt(20'000 * 0.09));
    EXPECT_NEAR(static_cast<double>(drawn.slow_nodes.size()), 50, 5 * std::sqrt(2500 * 0.0196));
    EXPECT_EQ(drawn, drawn_cluster(cluster));
    EXPECT_NE(drawn.slow_devices, drawn_cluster(with_draw(cluster, 1)).slow_devices);
    EXPECT_FALSE(drawn.stragglers.any());
}

TEST(DrawnCluster, MultipliesFactorsOnTheSameDevice) {
    plan::Cluster cluster;
    cluster.nodes = 2;
    cluster.devices_per_node = 2;
    cluster.slow_devices = {{1, 1.5}};
    cluster.stragglers.slow = {{StragglerOf::device, 1, 2}, {StragglerOf::node, 1, 3}};
    const plan::Cluster drawn = drawn_cluster(cluster);
    EXPECT_EQ(drawn.slow_factor(0), 6);
    EXPECT_EQ(drawn.slow_factor(1), 9);
}

// A node is slow with probability q; of n nodes none is with (1 − q)ⁿ. Steps take two times, and
// so large a share of the draws the shorter one.
TEST(StepDraws, AreSpreadAsTheChanceOfAnySlowNode) {
    const Sets even = joined(sets_of({2, 1, 4, 1, 2, {}}),
                             {R"(cluster.stragglers={"slow": [{"of": "node", "share": 0.2,
                                                               "factor": 1.5}]})"});
    constexpr std::int64_t kDraws = 200;
    const plan::Scenario asked = theory::scenario(even);
    const plan::Plan plan = plan::build_plan(asked);
    SimulateOptions options;
    options.plan = &plan;
    const StepDraws draws = draw_steps(asked, profile(), options, kDraws);
    ASSERT_EQ(draws.times_s.size(), 200U);
    const double least = draws.quantile_s(0);
    const auto even_steps =
        static_cast<double>(std::count(draws.times_s.begin(), draws.times_s.end(), least));
    const double chance = std::pow(0.8, 4);
    EXPECT_NEAR(even_steps, kDraws * chance, 5 * std::sqrt(kDraws * chance * (1 - chance)));
    EXPECT_EQ(draws.times_s[0], simulate(asked, profile(), {}, "").step.time_s);
    EXPECT_GT(draws.quantile_s(1), least * 1.1);
    EXPECT_GT(draws.mean_s(), least);
}

TEST(StepDraws, AreTheSameForAnyNumberOfThreads) {
    const plan::Scenario asked = theory::scenario(
        joined(sets_of({2, 1, 4, 1, 2, {}}),
               {R"(cluster.jitter={"distribution": "normal", "relative_sd": 0.05})",
                R"(cluster.stragglers={"common_sd": 0.01})"}));
    const plan::Plan plan = plan::build_plan(asked);
    SimulateOptions options;
    options.plan = &plan;
    const auto draws = [&](std::size_t threads) {
        const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
        return draw_steps(asked, profile(), options, 12).times_s;
    };
    const std::vector<double> one = draws(1);
    EXPECT_EQ(one, draws(4));
    EXPECT_NE(one[0], one[1]);
}

TEST(StepDraws, QuantilesAreOfTheDraws) {
    const StepDraws draws{{3, 1, 2, 4}};
    EXPECT_EQ(draws.quantile_s(0), 1);
    EXPECT_EQ(draws.quantile_s(0.25), 1);
    EXPECT_EQ(draws.quantile_s(0.5), 2);
    EXPECT_EQ(draws.quantile_s(0.51), 3);
    EXPECT_EQ(draws.quantile_s(1), 4);
    EXPECT_EQ(draws.mean_s(), 2.5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
