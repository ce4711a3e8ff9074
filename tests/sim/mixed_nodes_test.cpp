// Clusters whose nodes are of several kinds: nothing changes where the kinds are the same, folding
// changes nothing, what spans kinds waits for the slowest, memory is that of the device, and layers
// go where they are computed fastest.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/network/mixed_network.hpp"
#include "sim/prediction.hpp"
#include "sim/whatif/balanced_layers.hpp"
#include "tests/sim/random_layouts.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

Sets nodes_of(const std::string& cluster, std::int64_t nodes) {
    return {"cluster=clusters/" + cluster + ".json", set("cluster.nodes", nodes)};
}

Sets others(const std::string& cluster, std::int64_t nodes) {
    return {R"(cluster.other_nodes=["clusters/)" + cluster + R"(.json"])",
            set("cluster.other_nodes.0.nodes", nodes)};
}

// Of a model that is large enough for its devices to count.
plan::Scenario scenario_on(const Sets& cluster, const Sets& layout) {
    return theory::scenario(
        joined(joined(cluster, {"model.n_embd=2048", "model.n_head=16", "model.n_layer=16",
                                "model.n_positions=1024", "training.sequence_length=1024",
                                "layout.global_batch_size=64", "training.tokens=1e9"}),
               layout));
}

Prediction predicted(const plan::Scenario& scenario) {
    SimulateOptions options;
    options.keep_trace = false;
    return simulate(scenario, load_profiles(scenario.cluster), options, "");
}

const std::vector<Sets>& layouts() {
    static const std::vector<Sets> all = {
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=4", "layout.data_parallel=4"},
        {"layout.tensor_parallel=8", "layout.data_parallel=4"},
        {"layout.data_parallel=32", "layout.zero_stage=3"},
        {"layout.tensor_parallel=4", "layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
         "layout.schedule=interleaved", "layout.data_parallel=4"},
    };
    return all;
}

TEST(MixedNodes, OfOneKindAreAsIfTheyWereTold) {
    for (const Sets& layout : layouts()) {
        const plan::Scenario told =
            scenario_on(joined(nodes_of("h100-sxm-8", 3), others("h100-sxm-8", 1)), layout);
        const plan::Scenario alike = scenario_on(nodes_of("h100-sxm-8", 4), layout);
        ASSERT_EQ(told.cluster.devices(), alike.cluster.devices());
        const Prediction a = predicted(told), b = predicted(alike);
        EXPECT_EQ(a.trace.step_end - a.trace.step_start, b.trace.step_end - b.trace.step_start);
        for (std::size_t account = 0; account < trace::kAccounts; ++account)
            EXPECT_NEAR(a.step.breakdown_s[account], b.step.breakdown_s[account], 1e-12);
        EXPECT_EQ(a.memory.worst().peak_bytes, b.memory.worst().peak_bytes);
        EXPECT_EQ(a.memory.fit_probability, b.memory.fit_probability);
        EXPECT_NEAR(a.throughput.mfu, b.throughput.mfu, 1e-12);
        EXPECT_NEAR(*a.run.cost_usd, *b.run.cost_usd, 1e-6 * *b.run.cost_usd);
        EXPECT_NEAR(*a.run.energy_mwh, *b.run.energy_mwh, 1e-9 * *b.run.energy_mwh);
    }
}

// Below the switches of one fabric, where all have the same network: half of the nodes of a leaf
// are told as others.
TEST(MixedNodes, OfOneKindOnAFabricAreAsIfTheyWereTold) {
    const auto fabric = [](const std::string& of) {
        return of + R"(.inter_node.fabric={"kind": "fat_tree", "switch_latency_us": 1, )"
                    R"("levels": [{"nodes": 2, "oversubscription": 4}]})";
    };
    for (const Sets& layout : layouts()) {
        const plan::Scenario told =
            scenario_on(joined(joined(nodes_of("h100-sxm-8", 3), others("h100-sxm-8", 1)),
                               {fabric("cluster"), fabric("cluster.other_nodes.0")}),
                        layout);
        const plan::Scenario alike =
            scenario_on(joined(nodes_of("h100-sxm-8", 4), {fabric("cluster")}), layout);
        const Prediction a = predicted(told), b = predicted(alike);
        EXPECT_EQ(a.trace.step_end - a.trace.step_start, b.trace.step_end - b.trace.step_start);
        EXPECT_EQ(folding_fault(told, load_profiles(told.cluster)), "");
    }
}

TEST(MixedNodes, AreFoldedAsOthersAre) {
    for (const Sets& layout : layouts())
        for (const std::int64_t own : {1, 2, 3}) {
            const plan::Scenario mixed = scenario_on(
                joined(nodes_of("h100-sxm-8", own), others("a100-80gb-sxm-8", 4 - own)), layout);
            EXPECT_EQ(folding_fault(mixed, load_profiles(mixed.cluster)), "") << own;
        }
}

// Ranks that share their data: each step of a group ends with its slowest, so a step is as long as
// on slow nodes alone, but for what these wait for each other.
TEST(MixedNodes, DataParallelRanksWaitForTheSlowest) {
    const Sets data = {"layout.tensor_parallel=8", "layout.data_parallel=2"};
    const double slow = predicted(scenario_on(nodes_of("a100-80gb-sxm-1024", 2), data)).step.time_s;
    const Prediction mixed = predicted(
        scenario_on(joined(nodes_of("h100-sxm-8", 1), others("a100-80gb-sxm-8", 1)), data));
    EXPECT_NEAR(mixed.step.time_s, slow, 0.01 * slow);
}

TEST(MixedNodes, AGroupThatSpansKindsIsPricedByTheSlowest) {
    const plan::Cluster cluster =
        scenario_on(joined(nodes_of("h100-sxm-8", 2), others("a100-80gb-sxm-8", 2)), {}).cluster;
    const Profile profile = load_profiles(cluster);
    std::vector<CollectiveTable> tables;
    std::vector<Network> alone;
    for (std::size_t kind = 0; kind < 2; ++kind) {
        const Profile& of = profile.of_kind(kind);
        tables.push_back(parse_collectives(of.collectives_json, of.path));
        alone.emplace_back(cluster.all_of_kind(kind), tables.back());
    }
    const MixedNetwork mixed(cluster, tables);
    // Four groups of a rank of each node; eight of ranks within one.
    std::vector<std::vector<std::int64_t>> across(8), within(4);
    for (std::int64_t device = 0; device < 32; ++device) {
        across[static_cast<std::size_t>(device % 8)].push_back(device);
        within[static_cast<std::size_t>(device / 8)].push_back(device);
    }
    const GroupShape all = shapes_of(across, cluster).front();
    const std::vector<GroupShape> inside = shapes_of(within, cluster);
    const auto seconds = [&](const auto& network, const GroupShape& shape) {
        return network.collective(plan::OpKind::all_reduce, 1 << 28, shape).seconds;
    };
    EXPECT_NE(seconds(alone[0], all), seconds(alone[1], all));
    EXPECT_EQ(seconds(mixed, all), std::max(seconds(alone[0], all), seconds(alone[1], all)));
    EXPECT_EQ(seconds(mixed, inside[0]), seconds(alone[0], inside[0]));
    EXPECT_EQ(seconds(mixed, inside[3]), seconds(alone[1], inside[3]));
    EXPECT_LT(seconds(mixed, inside[0]), seconds(mixed, inside[3]));

    const auto hop = [&](std::int64_t from, std::int64_t to) {
        return mixed.point_to_point(1 << 28, hop_between(from, to, cluster)).seconds;
    };
    EXPECT_EQ(hop(8, 16), hop(16, 24)) << "the slower adapter";
    EXPECT_LT(hop(0, 8), hop(8, 16));
}

// The same peak of two stages on devices of 80 and of 40 GB: the smaller decides.
TEST(MixedNodes, EachStageHasTheMemoryOfItsDevices) {
    const Sets pipeline = {"layout.tensor_parallel=8", "layout.pipeline_parallel=2"};
    const plan::Scenario mixed =
        scenario_on(joined(nodes_of("h100-sxm-8", 1), others("a100-40gb-sxm-8", 1)), pipeline);
    const Profile profile = load_profiles(mixed.cluster);
    const MemoryPrediction memory = predicted(mixed).memory;
    const auto capacity = [&](std::size_t kind) {
        return static_cast<std::int64_t>(profile.of_kind(kind).hardware.capacity_bytes.value);
    };
    ASSERT_EQ(memory.stages.size(), 2U);
    EXPECT_EQ(memory.stages[0].capacity_bytes, capacity(0));
    EXPECT_EQ(memory.stages[1].capacity_bytes, capacity(1));
    EXPECT_LT(capacity(1), capacity(0));
    const auto share = [](const StageMemory& stage) {
        return static_cast<double>(stage.peak_bytes) / static_cast<double>(stage.capacity_bytes);
    };
    ASSERT_GT(share(memory.stages[1]), share(memory.stages[0]));
    EXPECT_EQ(&memory.worst(), &memory.stages[1]);
    EXPECT_EQ(memory.capacity_bytes, capacity(1));
}

TEST(MixedNodes, CostAndDrawWhatTheirDevicesDo) {
    const plan::Scenario mixed = scenario_on(
        joined(
            joined(nodes_of("h100-sxm-8", 1), others("a100-80gb-sxm-8", 3)),
            {"cluster.price_usd_per_gpu_hour=3", "cluster.other_nodes.0.price_usd_per_gpu_hour=1",
             "cluster.power_w_per_gpu=700", "cluster.pue=1.2",
             "cluster.other_nodes.0.power_w_per_gpu=400", "cluster.other_nodes.0.pue=1.1"}),
        {"layout.tensor_parallel=8", "layout.data_parallel=2"});
    const Prediction prediction = predicted(mixed);
    const double hours = *prediction.run.days * 24;
    EXPECT_NEAR(*prediction.run.cost_usd, hours * (8 * 3 + 24 * 1), 1e-9 * hours);
    EXPECT_NEAR(*prediction.run.cost_nodes_used_usd, hours * (8 * 3 + 8 * 1), 1e-9 * hours);
    EXPECT_NEAR(*prediction.run.energy_mwh, hours * (8 * 700 * 1.2 + 8 * 400 * 1.1) / 1e6,
                1e-12 * hours);
    EXPECT_NEAR(prediction.throughput.peak_tflops, (989.4 + 312) / 2, 0.5) << "datasheets' bf16";
}

// Work that is shared out by speed takes as long as the harmonic mean of what it takes on each.
TEST(MixedNodes, LayersGoWhereTheyAreFast) {
    const Sets pipeline = {"layout.tensor_parallel=8", "layout.pipeline_parallel=2",
                           "layout.global_batch_size=256", "model.n_embd=8192", "model.n_head=64"};
    const Sets cluster = joined(nodes_of("h100-sxm-8", 1), others("a100-80gb-sxm-8", 1));
    const plan::Scenario mixed = scenario_on(cluster, pipeline);
    const double fast = predicted(scenario_on(nodes_of("h100-sxm-8", 2), pipeline)).step.time_s;
    const double slow =
        predicted(scenario_on(nodes_of("a100-80gb-sxm-1024", 2), pipeline)).step.time_s;
    const Prediction even = predicted(mixed);
    EXPECT_NEAR(even.step.time_s, slow, 0.05 * slow) << "the slow stage sets the pace";
    const auto balanced = balanced_layers(
        mixed, load_profiles(mixed.cluster), even, [&](const std::vector<std::string>& sets) {
            return std::optional(scenario_on(cluster, joined(pipeline, sets)));
        });
    ASSERT_TRUE(balanced.has_value());
    const double harmonic = 2 / (1 / fast + 1 / slow);
    EXPECT_GT(balanced->step_time_s, 0.97 * harmonic);
    EXPECT_LT(balanced->step_time_s, 1.12 * harmonic) << "of 16 layers, whole ones: 1 in 11";
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
