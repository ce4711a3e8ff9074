// Groups and messages on fat trees and rails: nodes of 8 devices with 8 NICs of 10 GB/s.
#include <gtest/gtest.h>

#include "sim/network/collective_cost.hpp"
#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

plan::Cluster with_fabric(plan::FabricKind kind, std::vector<plan::FabricLevel> levels,
                          plan::CrossRail cross_rail = plan::CrossRail::nvlink) {
    plan::Cluster cluster = plain_cluster(8);
    cluster.inter_node.fabric = {kind, std::move(levels), cross_rail, 0.5};
    return cluster;
}

plan::Cluster tree(double leaf, double above) {
    return with_fabric(plan::FabricKind::fat_tree, {{2, leaf}, {4, above}});
}

plan::Cluster rails(double leaf, plan::CrossRail cross_rail = plan::CrossRail::nvlink) {
    return with_fabric(plan::FabricKind::rail, {{4, leaf}}, cross_rail);
}

// Data groups of one place in each of so many nodes, from a first node on.
std::vector<std::vector<std::int64_t>> columns(std::int64_t first_node, std::int64_t nodes) {
    std::vector<std::vector<std::int64_t>> groups(8);
    for (std::int64_t place = 0; place < 8; ++place)
        for (std::int64_t node = first_node; node < first_node + nodes; ++node)
            groups[static_cast<std::size_t>(place)].push_back(8 * node + place);
    return groups;
}

GroupLinks links_of(const plan::Cluster& cluster,
                    const std::vector<std::vector<std::int64_t>>& groups, std::size_t group = 0) {
    return Network(cluster, plain_table()).links(shapes_of(groups, cluster)[group]);
}

TEST(FatTree, DoesNothingToGroupsBelowOneLeaf) {
    const GroupLinks links = links_of(tree(16, 16), columns(2, 2));
    EXPECT_DOUBLE_EQ(links.network_GBps, 10);
    EXPECT_DOUBLE_EQ(links.network_latency_us, 4);
}

// A ring leaves each leaf once, however many of its nodes lie below: eight rings over the links of
// a leaf of two nodes, 160 GB/s ÷ 4, have 5 GB/s each; over those of four nodes, 320 ÷ 4 ÷ 2, as
// much again.
TEST(FatTree, NarrowsRingsWhereTheyLeaveASwitch) {
    EXPECT_DOUBLE_EQ(links_of(tree(1, 1), columns(0, 8)).network_GBps, 10);
    EXPECT_DOUBLE_EQ(links_of(tree(2, 1), columns(0, 8)).network_GBps, 10);
    EXPECT_DOUBLE_EQ(links_of(tree(4, 1), columns(0, 8)).network_GBps, 5);
    EXPECT_DOUBLE_EQ(links_of(tree(4, 2), columns(0, 8)).network_GBps, 5);
    EXPECT_DOUBLE_EQ(links_of(tree(4, 4), columns(0, 8)).network_GBps, 2.5);
    EXPECT_DOUBLE_EQ(links_of(tree(1, 8), columns(0, 4)).network_GBps,
                     10);  // below the upper level
}

// Of eight hops four leave a leaf and two of these the level above: 4 µs and, on average, half of
// two switches of 0.5 µs and a quarter of two more.
TEST(FatTree, TakesTimeForItsSwitches) {
    EXPECT_DOUBLE_EQ(links_of(tree(1, 1), columns(0, 8)).network_latency_us, 4 + 0.5 + 0.25);
}

TEST(FatTree, CountsTheGroupsOfAllItsNodes) {
    // Pairs one leaf apart: all sixteen of a leaf's two nodes leave it.
    std::vector<std::vector<std::int64_t>> pairs;
    for (std::int64_t device = 0; device < 16; ++device)
        pairs.push_back({device, device + 16});
    EXPECT_DOUBLE_EQ(links_of(tree(4, 1), pairs).network_GBps, 160 / 4.0 / 16);
}

TEST(FatTree, NarrowsMessagesByTheLevelsThatTheyClimb) {
    const plan::Cluster cluster = tree(2, 4);
    const Network network(cluster, plain_table());
    const auto seconds = [&](std::int64_t node) {
        Hop hop = hop_between(3, 8 * node + 3, cluster);
        hop.flows = 8;
        return network.point_to_point(10'000'000, hop).seconds;
    };
    // 2 + 3 + 4 µs; 10 GB/s, a half, an eighth of it; 1 µs more for each level.
    EXPECT_NEAR(seconds(1), 9e-6 + 1e-3, 1e-15);
    EXPECT_NEAR(seconds(2), 10e-6 + 2e-3, 1e-15);
    EXPECT_NEAR(seconds(7), 11e-6 + 8e-3, 1e-15);
}

// Everybody to everybody over eight nodes: 32 members below a switch of the upper level share what
// its links carry, and half of what each sends passes them.
TEST(FatTree, NarrowsExchangesByWhatAllSend) {
    const plan::Cluster cluster = with_fabric(plan::FabricKind::fat_tree, {{4, 4}});
    const Network network(cluster, plain_table());
    const GroupShape shape = shapes_of(columns(0, 8), cluster).front();
    const double seconds = network.collective(OpKind::all_to_all, 80'000'000, shape).seconds;
    // Messages of 10 MB, four of eight members beyond; 4 × 80 ÷ 4 GB/s over 32 senders.
    EXPECT_NEAR(seconds, (2 + 3 + 4 + 1) * 1e-6 + 40e6 / 2.5e9, 1e-15);
}

TEST(Rails, KeepGroupsOfOnePlaceToThemselves) {
    // Nodes below the same leaves: nothing climbs.
    EXPECT_DOUBLE_EQ(links_of(rails(64), columns(0, 4)).network_GBps, 10);
    EXPECT_DOUBLE_EQ(links_of(rails(64), columns(0, 4)).network_latency_us, 4);
    // Beyond: each of the eight has its own rail's links, 4 × 10 GB/s ÷ 8.
    EXPECT_DOUBLE_EQ(links_of(rails(8), columns(0, 8)).network_GBps, 5);
}

// Two groups on two rails do not have what the links above the other leaves carry, those of a fat
// tree of as many nodes do.
TEST(Rails, DoNotLendTheirLinks) {
    std::vector<std::vector<std::int64_t>> groups = columns(0, 8);
    groups.resize(2);
    EXPECT_DOUBLE_EQ(links_of(rails(8), groups).network_GBps, 5);
    EXPECT_DOUBLE_EQ(
        links_of(with_fabric(plan::FabricKind::fat_tree, {{4, 8}}), groups).network_GBps, 10);
}

// A group of all devices of eight nodes rides on all rails.
TEST(Rails, AreAllOpenToAGroupWithMembersOnEach) {
    std::vector<std::int64_t> world(64);
    for (std::size_t device = 0; device < world.size(); ++device)
        world[device] = static_cast<std::int64_t>(device);
    EXPECT_DOUBLE_EQ(links_of(rails(4), {world}).network_GBps, 80);
    EXPECT_DOUBLE_EQ(links_of(rails(16), {world}).network_GBps, 4 * 80 / 16.0);
}

// A partner in another place: over NVLink to the device in that place, or over the spine, where all
// eight pairs of the nodes meet.
TEST(Rails, AreCrossedInTheNodeOrAboveTheLeaves) {
    std::vector<std::vector<std::int64_t>> crossed;
    for (std::int64_t place = 0; place < 8; ++place)
        crossed.push_back({place, 8 + (place + 1) % 8});
    const GroupShape shape = shapes_of(crossed, rails(8)).front();
    EXPECT_TRUE(shape.crosses_rails);
    const GroupLinks inside = links_of(rails(64), crossed);
    EXPECT_DOUBLE_EQ(inside.network_GBps, 10);
    EXPECT_DOUBLE_EQ(inside.network_latency_us, 4 + 2);
    // Each rail's leaf, 4 × 10 GB/s ÷ 8, carries a ring of two groups, on two rails each.
    const GroupLinks above = links_of(rails(8, plan::CrossRail::spine), crossed);
    EXPECT_DOUBLE_EQ(above.network_GBps, 5);
    EXPECT_DOUBLE_EQ(above.network_latency_us, 4 + 1);
}

TEST(Rails, OfFewNicsAreSharedByTheirDevices) {
    plan::Cluster cluster = rails(1);
    cluster.inter_node.nics_per_node = 2;
    EXPECT_EQ(rails_of(cluster), 2);
    EXPECT_EQ(rail_of(3, cluster), 0);
    EXPECT_EQ(rail_of(8 + 4, cluster), 1);
    EXPECT_FALSE(hop_between(0, 8 + 3, cluster).crosses_rails);
    EXPECT_TRUE(hop_between(0, 8 + 4, cluster).crosses_rails);
}

TEST(Rails, CarryMessagesAcrossOneSwitchWhereTheyMayStay) {
    const plan::Cluster cluster = rails(8, plan::CrossRail::spine);
    EXPECT_EQ(hop_between(3, 8 + 3, cluster).levels, 0);
    EXPECT_EQ(hop_between(3, 8 + 4, cluster).levels, 1);
    EXPECT_EQ(hop_between(3, 32 + 3, cluster).levels, 1);
    EXPECT_EQ(hop_between(3, 8 + 4, rails(8)).levels, 0);
    const Network network(cluster, plain_table());
    Hop hop = hop_between(3, 8 + 4, cluster);
    hop.flows = 8;
    EXPECT_NEAR(network.point_to_point(10'000'000, hop).seconds, 10e-6 + 10e6 / 1.25e9, 1e-15);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
