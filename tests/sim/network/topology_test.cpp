#include "sim/network/topology.hpp"

#include <chrono>

#include <gtest/gtest.h>

#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

std::vector<std::string> path(const Route& route) {
    std::vector<std::string> names{route.links.front().from};
    for (const Link& link : route.links)
        names.push_back(link.to);
    return names;
}

TEST(Topology, DevicesOfANodeMeetAtItsSwitch) {
    const Topology topology(plain_cluster(4));
    const Route route = topology.route(1, 6);
    EXPECT_EQ(path(route),
              (std::vector<std::string>{"node0/device1", "node0/switch", "node0/device6"}));
    EXPECT_DOUBLE_EQ(route.latency_us, 2);
    EXPECT_DOUBLE_EQ(route.bottleneck_GBps, 100);
    EXPECT_EQ(route.links.front().kind, LinkKind::nvlink);
}

TEST(Topology, NodesMeetAtTheSpineThroughTheNicsOfTheirDevices) {
    const Topology topology(plain_cluster(4));
    const Route route = topology.route(3, 8 * 3 + 5);  // device 5 of another node
    EXPECT_EQ(path(route),
              (std::vector<std::string>{"node0/device3", "node0/nic3", "leaf0", "spine", "leaf1",
                                        "node1/nic5", "node1/device5"}));
    EXPECT_DOUBLE_EQ(route.latency_us, 4);
    EXPECT_DOUBLE_EQ(route.bottleneck_GBps, 10);  // one NIC of 80 Gb/s
}

TEST(Topology, EveryNodeOtherThanOnesOwnIsAlike) {
    const Topology topology(plain_cluster(1000));
    EXPECT_EQ(path(topology.route(0, 8)), path(topology.route(0, 7992)));
    EXPECT_EQ(path(topology.route(800, 801)), path(topology.route(0, 1)));
}

TEST(Topology, OversubscriptionNarrowsTheUplinkAndBecomesTheBottleneck) {
    plan::Cluster cluster = plain_cluster(2);
    EXPECT_DOUBLE_EQ(Topology(cluster).node_network_GBps(), 80);
    cluster.inter_node.oversubscription = 4;
    EXPECT_DOUBLE_EQ(Topology(cluster).node_network_GBps(), 20);
    cluster.inter_node.oversubscription = 16;  // 5 GB/s of uplink under NICs of 10
    EXPECT_DOUBLE_EQ(Topology(cluster).route(0, 8).bottleneck_GBps, 5);
}

TEST(Topology, FewNicsAreSharedByNeighbours) {
    plan::Cluster cluster = plain_cluster(2);
    cluster.inter_node.nics_per_node = 2;
    const Topology topology(cluster);
    EXPECT_EQ(topology.route(3, 8).links.front().to, "node0/nic0");
    EXPECT_EQ(topology.route(4, 8).links.front().to, "node0/nic1");
    EXPECT_DOUBLE_EQ(topology.device_network_GBps(), 10);
    EXPECT_DOUBLE_EQ(topology.node_network_GBps(), 20);
    // Sharing a NIC is no road between two devices.
    EXPECT_EQ(topology.route(0, 1).links.front().to, "node0/switch");
}

TEST(Topology, SpareNicsAddUp) {
    plan::Cluster cluster = plain_cluster(2);
    cluster.inter_node.nics_per_node = 16;
    EXPECT_DOUBLE_EQ(Topology(cluster).device_network_GBps(), 20);
}

TEST(Topology, OneNodeNeedsNoNetwork) {
    plan::Cluster cluster = plain_cluster(1);
    cluster.inter_node = {};
    cluster.intra_node.kind = plan::IntraNodeKind::host;
    const Topology topology(cluster);
    EXPECT_EQ(topology.route(0, 7).links.front().kind, LinkKind::host_memory);
    EXPECT_EQ(topology.node_network_GBps(), 0);
}

// Four devices, each with a link to each other one: a third of what it can send on each.
TEST(Topology, DirectLinksShareWhatADeviceCanSend) {
    plan::Cluster cluster = plain_cluster(1);
    cluster.devices_per_node = 4;
    cluster.intra_node = {plan::IntraNodeKind::xgmi, 90, 2};
    const Route route = Topology(cluster).route(1, 3);
    ASSERT_EQ(route.links.size(), 1u);
    EXPECT_EQ(route.links.front().kind, LinkKind::xgmi);
    EXPECT_DOUBLE_EQ(route.bottleneck_GBps, 30);
    EXPECT_DOUBLE_EQ(route.latency_us, 2);
    EXPECT_DOUBLE_EQ(pair_share(cluster, 2), 1.0 / 3);
    EXPECT_DOUBLE_EQ(pair_share(cluster, 4), 1);
    cluster.intra_node.kind = plan::IntraNodeKind::nvswitch;
    EXPECT_DOUBLE_EQ(pair_share(cluster, 2), 1);
}

TEST(Topology, DevicesOfACubeMeshGoByTheirLinksOrOverTheSockets) {
    plan::Cluster cluster = plain_cluster(1);
    cluster.intra_node = {plan::IntraNodeKind::hybrid_cube_mesh, 150, 2, 10};
    const Topology topology(cluster);
    EXPECT_EQ(path(topology.route(0, 4)),
              (std::vector<std::string>{"node0/device0", "node0/device4"}));
    EXPECT_DOUBLE_EQ(topology.route(0, 4).bottleneck_GBps, 50);
    EXPECT_DOUBLE_EQ(topology.route(0, 1).bottleneck_GBps, 25);
    EXPECT_EQ(path(topology.route(3, 4)),
              (std::vector<std::string>{"node0/device3", "node0/socket0", "node0/socket1",
                                        "node0/device4"}));
    EXPECT_DOUBLE_EQ(topology.route(3, 4).bottleneck_GBps, 10);
    EXPECT_DOUBLE_EQ(topology.route(3, 4).latency_us, 2);
}

// Four by two, of which the first axis wraps: three links either way round, one each.
TEST(Topology, DevicesOfATorusGoByTheirNeighbours) {
    plan::Cluster cluster = plain_cluster(1);
    cluster.intra_node = {plan::IntraNodeKind::torus, 40, 1, 0, {{4, true}, {2, false}}};
    const Topology topology(cluster);
    EXPECT_EQ(path(topology.route(0, 3)),
              (std::vector<std::string>{"node0/device0", "node0/device3"}));
    EXPECT_DOUBLE_EQ(topology.route(0, 3).bottleneck_GBps, 10);
    EXPECT_EQ(topology.route(0, 6).links.size(), 3u);
    EXPECT_DOUBLE_EQ(topology.route(0, 6).latency_us, 3);
    EXPECT_EQ(topology.route(0, 6).links.front().kind, LinkKind::torus);
}

TEST(Topology, ClimbsAFatTreeAsFarAsItMust) {
    plan::Cluster cluster = plain_cluster(8);
    cluster.inter_node.fabric = {
        plan::FabricKind::fat_tree, {{2, 1}, {4, 80}}, plan::CrossRail::nvlink, 0.5};
    const Topology topology(cluster);
    EXPECT_EQ(path(topology.route(0, 8)),
              (std::vector<std::string>{"node0/device0", "node0/nic0", "leaf0", "node1/nic0",
                                        "node1/device0"}));
    EXPECT_EQ(path(topology.route(0, 16)),
              (std::vector<std::string>{"node0/device0", "node0/nic0", "leaf0", "level1.0", "leaf2",
                                        "node2/nic0", "node2/device0"}));
    EXPECT_DOUBLE_EQ(topology.route(0, 16).latency_us, 5);
    const Route far = topology.route(16, 32);
    EXPECT_EQ(far.links.size(), 8u);
    EXPECT_DOUBLE_EQ(far.latency_us, 6);
    EXPECT_DOUBLE_EQ(far.bottleneck_GBps, 4);  // 4 × 80 GB/s ÷ 80
}

TEST(Topology, ChangesRailsInTheNodeOrAboveTheLeaves) {
    plan::Cluster cluster = plain_cluster(8);
    cluster.inter_node.fabric = {plan::FabricKind::rail, {{4, 1}}, plan::CrossRail::nvlink, 0.5};
    EXPECT_EQ(path(Topology(cluster).route(3, 8 + 3)),
              (std::vector<std::string>{"node0/device3", "node0/nic3", "leaf0.rail3", "node1/nic3",
                                        "node1/device3"}));
    EXPECT_EQ(
        path(Topology(cluster).route(3, 8 + 5)),
        (std::vector<std::string>{"node0/device3", "node0/switch", "node0/device5", "node0/nic5",
                                  "leaf0.rail5", "node1/nic5", "node1/device5"}));
    cluster.inter_node.fabric.cross_rail = plan::CrossRail::spine;
    EXPECT_EQ(path(Topology(cluster).route(3, 8 + 5)),
              (std::vector<std::string>{"node0/device3", "node0/nic3", "leaf0.rail3", "spine",
                                        "leaf0.rail5", "node1/nic5", "node1/device5"}));
    EXPECT_DOUBLE_EQ(Topology(cluster).route(3, 8 + 5).latency_us, 5);
}

TEST(TopologyDeathTest, SeveralNodesDo) {
    plan::Cluster cluster = plain_cluster(2);
    cluster.inter_node = {};
    EXPECT_DEATH(Topology{cluster}, "several nodes need a network");
}

TEST(TopologyDeathTest, RoutesNeedTwoDevicesOfTheCluster) {
    const Topology topology(plain_cluster(2));
    EXPECT_DEATH(topology.route(3, 3), "two different devices");
    EXPECT_DEATH(topology.route(0, 16), "two different devices");
}

TEST(Topology, BuildingDoesNotGrowWithTheCluster) {
    // 1000 clusters of 2000 nodes: were each node built, this would be 32 million vertices.
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
        const Topology topology(plain_cluster(2000));
        ASSERT_GT(topology.node_network_GBps(), 0);
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    EXPECT_LT(spent.count(), 10);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
