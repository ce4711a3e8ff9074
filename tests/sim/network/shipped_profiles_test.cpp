// The shipped profiles against collectives that others timed and published.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "plan/scenario/reader.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/collective_cost.hpp"
#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

std::string profile_path(const std::string& name) {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/" + name + ".json";
}

CollectiveTable shipped(const std::string& name) {
    const Profile profile = load_profile(profile_path(name));
    return parse_collectives(profile.collectives_json, profile.path);
}

plan::Cluster a100_nodes(std::int64_t nodes) {
    plan::Cluster cluster = plain_cluster(nodes);
    cluster.intra_node = {plan::IntraNodeKind::nvswitch, 300, 2};
    cluster.inter_node = {plan::InterNodeKind::infiniband, 8, 200, 5, 1};
    return cluster;
}

TEST(ShippedProfiles, AllHaveCollectivesThatRead) {
    int read = 0;
    const auto folder = std::filesystem::path(profile_path("")).parent_path();
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".json") continue;
        const Profile profile = load_profile(entry.path().string());
        EXPECT_NO_THROW(parse_collectives(profile.collectives_json, profile.path)) << entry.path();
        ++read;
    }
    EXPECT_GE(read, 2);
}

// Of every shipped cluster: whether each curve of its profile costs there what was measured. H800's
// links are slower than those of the device that was; nodes of four have a direct link for each
// pair.
TEST(ShippedProfiles, OnlyOtherLinksAreNotThoseOfTheirCurves) {
    const std::string scenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    std::vector<std::string> others;
    int curves = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scenarios + "/clusters")) {
        const std::string text = R"({"model": "models/gpt2.json", "cluster": "clusters/)" +
                                 entry.path().filename().string() +
                                 R"(", "layout": {"data_parallel": 1, "global_batch_size": 8},
                "training": {"sequence_length": 1024, "precision": "fp32"}})";
        const auto read = plan::read_scenario_text(text, "text", scenarios, {}, scenarios);
        ASSERT_TRUE(read.scenario) << entry.path() << plan::format_text(read.errors);
        const plan::Cluster& cluster = read.scenario->cluster;
        if (cluster.devices_per_node == 1) continue;
        const Profile profile = load_profiles(cluster);
        const Network network(cluster, parse_collectives(profile.collectives_json, profile.path));
        bool same = true;
        for (const CollectiveCurve& curve : network.table().curves)
            for (const CurvePoint& point : curve.points) {
                const auto bytes = static_cast<std::int64_t>(point.bytes);
                const GroupShape shape{curve.ranks, 1, curve.ranks, 1};
                same = same &&
                       network.collective(curve.collective, bytes, shape).seconds == point.seconds;
                ++curves;
            }
        if (!same) others.push_back(entry.path().filename().string());
    }
    EXPECT_GT(curves, 100);
    std::sort(others.begin(), others.end());
    EXPECT_EQ(others, (std::vector<std::string>{
                          "alps-gh200-10752.json", "deepseek-h800-2048.json", "jedi-gh200-192.json",
                          "juwels-booster-a100-3744.json", "leonardo-a100-256.json",
                          "marenostrum5-h100-256.json", "perlmutter-a100-6144.json"}));
}

TEST(ShippedProfiles, A100NodeAllReduceOf16GiBTakes128Milliseconds) {
    // nccl-tests on 8 A100: 127,997 µs, 234.9 GB/s of bus bandwidth (stas00/ml-engineering,
    // network/README.md). The profile is another machine's, whose largest size is 512 MiB.
    const Network network(a100_nodes(1), shipped("a100-80gb-sxm"));
    const Price price = network.collective(OpKind::all_reduce, 17'179'869'184, {8, 1, 8, 1});
    EXPECT_NEAR(price.seconds / 127.997e-3, 1, 0.10);
}

TEST(ShippedProfiles, MI300XAllReducesAsPublished) {
    // rccl-tests, 4 GiB: bus bandwidth 312.9 GB/s over 8, 47.7 over 2 MI300X of a node, whose
    // direct links carry 64 GB/s each (stas00/ml-engineering, network/README.md).
    plan::Cluster cluster = plain_cluster(1);
    cluster.intra_node = {plan::IntraNodeKind::xgmi, 448, 2};
    const Network network(cluster, shipped("mi300x"));
    const std::int64_t bytes = std::int64_t{4} << 30;
    const Price eight = network.collective(OpKind::all_reduce, bytes, {8, 1, 8, 1});
    EXPECT_NEAR(eight.seconds, 2 * 7 / 8.0 * static_cast<double>(bytes) / 312.9e9,
                0.1 * eight.seconds);
    const Price two = network.collective(OpKind::all_reduce, bytes, {2, 1, 2, 1});
    EXPECT_NEAR(two.seconds, static_cast<double>(bytes) / 47.7e9, 0.1 * two.seconds);
}

TEST(ShippedProfiles, A100AllReduceBetweenNodesIsWithinItsUncertainty) {
    // Azure ND A100 v4, 8 × 200 Gb/s per node (published with Echo, Feng et al. 2024,
    // arXiv 2412.12487): microseconds of all-reduces over 2, 4 and 8 nodes.
    struct Timing {
        int nodes;
        std::int64_t bytes;
        double measured_us;
    };
    const Network network(a100_nodes(8), shipped("a100-80gb-sxm"));
    for (const Timing& timing :
         {Timing{2, 2048, 36.05}, Timing{8, 2048, 81.88}, Timing{4, 1 << 20, 131.8},
          Timing{8, 4 << 20, 251.8}, Timing{2, 1 << 30, 16170}, Timing{8, 2147483648, 34308}}) {
        const Price price = network.collective(OpKind::all_reduce, timing.bytes,
                                               {8 * timing.nodes, timing.nodes, 8, 1});
        EXPECT_NEAR(price.seconds / (timing.measured_us * 1e-6), 1, price.relative_sd)
            << timing.nodes << " nodes, " << timing.bytes << " bytes";
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
