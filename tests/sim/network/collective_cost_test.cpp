#include "sim/network/collective_cost.hpp"

#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

constexpr double kMicro = 1e-6;
const OpKind kCollectives[] = {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter};

TEST(ShapeOf, CountsMembersNodesAndTheFullestNode) {
    EXPECT_EQ(shape_of({0, 1, 2, 3}, 8), (GroupShape{4, 1, 4, 1}));
    EXPECT_EQ(shape_of({5, 6, 7, 8}, 8), (GroupShape{4, 2, 3, 1}));  // straddles two nodes
    EXPECT_EQ(shape_of({0, 8, 16}, 8, 8), (GroupShape{3, 3, 1, 8}));
    EXPECT_EQ(shape_of({9}, 8), (GroupShape{1, 1, 1, 1}));
    EXPECT_EQ(shape_of({17, 5, 16, 6, 7}, 8), (GroupShape{5, 2, 3, 1}));  // placed anywhere
}

TEST(ShapeOf, SiblingsAreTheGroupsThatLeaveTheSameNode) {
    // Two nodes of 4; data groups {i, i+4}: four leave each node.
    std::vector<std::vector<std::int64_t>> across;
    for (std::int64_t i = 0; i < 4; ++i)
        across.push_back({i, i + 4});
    plan::Cluster cluster = plain_cluster(3);
    cluster.devices_per_node = 4;
    EXPECT_EQ(shapes_of(across, cluster), std::vector<GroupShape>(4, GroupShape{2, 2, 1, 4}));
    // Groups of three devices: {0,1,2} stays inside; {3,4,5} and {6,7,8} both leave node 1.
    EXPECT_EQ(shapes_of({{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, cluster),
              (std::vector<GroupShape>{{3, 1, 3, 1}, {3, 2, 2, 2}, {3, 2, 2, 2}}));
}

TEST(Network, AGroupOfOneCostsNothing) {
    const Network network(plain_cluster(2), plain_table());
    for (OpKind kind : kCollectives)
        EXPECT_EQ(network.collective(kind, 1 << 30, {}).seconds, 0);
}

// In chunks round a ring every link carries all S bytes (nccl-tests: busbw is S ÷ time).
TEST(Network, ABroadcastTakesTheTimeOfItsBytesOnALink) {
    const Network network(plain_cluster(2), plain_table());
    const std::int64_t small = std::int64_t{1} << 30, large = 4 * small;
    const auto seconds = [&](std::int64_t bytes, const GroupShape& shape) {
        return network.collective(OpKind::broadcast, bytes, shape).seconds;
    };
    for (const GroupShape& shape : {GroupShape{8, 1, 8, 1}, GroupShape{2, 1, 2, 1}}) {
        const double rate =
            static_cast<double>(large - small) / (seconds(large, shape) - seconds(small, shape));
        const double gathered = static_cast<double>(large - small) * (shape.ranks - 1) /
                                static_cast<double>(shape.ranks) /
                                (network.collective(OpKind::all_gather, large, shape).seconds -
                                 network.collective(OpKind::all_gather, small, shape).seconds);
        EXPECT_NEAR(rate, gathered, 1e-6 * gathered) << shape.ranks;  // the same bus bandwidth
    }
    EXPECT_EQ(seconds(small, {}), 0);
}

TEST(Network, HitsTheMeasuredPointsOfItsCurve) {
    CollectiveTable table = plain_table();
    const std::vector<CurvePoint> points{{1024, 1.5e-5}, {1 << 20, 4e-5}, {1 << 28, 2.2e-3}};
    table.curves = {curve(OpKind::all_reduce, 8, points)};
    const Network network(plain_cluster(2), table);
    for (const CurvePoint& point : points) {
        const Price price = network.collective(
            OpKind::all_reduce, static_cast<std::int64_t>(point.bytes), {8, 1, 8, 1});
        EXPECT_EQ(price.seconds, point.seconds);
        EXPECT_EQ(price.family, CostFamily::intra_node_collective);
        EXPECT_EQ(price.relative_sd, 0.04);
    }
}

TEST(Network, IsLessSureBeyondTheCurve) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_reduce, 8, {{1024, 1e-5}})};
    const Network network(plain_cluster(1), table);
    const Price beyond = network.collective(OpKind::all_reduce, 4096, {8, 1, 8, 1});
    EXPECT_DOUBLE_EQ(beyond.seconds, 4e-5);
    EXPECT_DOUBLE_EQ(beyond.relative_sd, 0.04 * 2);  // two octaves, half more each
}

TEST(Network, InterpolatesBusBandwidthBetweenRankCounts) {
    CollectiveTable table = plain_table();
    // All-gathers of S bytes: at 2 ranks S/2 per rank in S/20e9 s is 10 GB/s of bus bandwidth; at
    // 8 ranks 7/8·S in S/40e9 s is 35 GB/s. At 4, a third of the way: 18.33 GB/s.
    table.curves = {curve(OpKind::all_gather, 2, {{1e6, 1e6 / 20e9}}),
                    curve(OpKind::all_gather, 8, {{1e6, 1e6 / 40e9}})};
    const Network network(plain_cluster(1), table);
    const Price price = network.collective(OpKind::all_gather, 1'000'000, {4, 1, 4, 1});
    EXPECT_NEAR(price.seconds, 0.75e6 / ((10e9 * 2 + 35e9) / 3), 1e-15);
    EXPECT_DOUBLE_EQ(price.relative_sd, 2 * 0.04);
}

TEST(Network, OutsideTheMeasuredRankCountsIsARing) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_gather, 2, {{1e6, 1}})};
    const Network network(plain_cluster(1), table);
    const Price price = network.collective(OpKind::all_gather, 80'000'000, {8, 1, 8, 1});
    EXPECT_NEAR(price.seconds, (2 + 7 + 700) * kMicro, 1e-15);  // 70 MB at 100 GB/s
    EXPECT_EQ(price.relative_sd, 0.1);
}

TEST(Network, AFasterLinkScalesWhatExceedsTheLatency) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_reduce, 8, {{1024, 1e-5}, {1e9, 9e-3}})};
    plan::Cluster cluster = plain_cluster(1);
    cluster.intra_node.bandwidth_GBps = 200;  // measured at 100
    const Network network(cluster, table);
    EXPECT_DOUBLE_EQ(network.collective(OpKind::all_reduce, 1024, {8, 1, 8, 1}).seconds, 1e-5);
    EXPECT_DOUBLE_EQ(network.collective(OpKind::all_reduce, 1'000'000'000, {8, 1, 8, 1}).seconds,
                     1e-5 + (9e-3 - 1e-5) / 2);
}

// A ring of 8 makes 14 hops of 1 us, found on a link of 2 us, and 2 us beside them: 16 us.
class CurveOnAnotherLink : public testing::Test {
  protected:
    CurveOnAnotherLink() {
        table_.curves = {curve(OpKind::all_reduce, 8, {{1024, 1e-5}, {1e9, 9e-3}})};
        table_.measured_link = MeasuredLink{plan::IntraNodeKind::nvswitch, 2};
        table_.ring.front().nvswitch_link_us = 2;
    }
    Price price(std::int64_t bytes) const {
        return Network(cluster_, table_).collective(OpKind::all_reduce, bytes, {8, 1, 8, 1});
    }

    CollectiveTable table_ = plain_table();
    plan::Cluster cluster_ = plain_cluster(1);
};

TEST_F(CurveOnAnotherLink, CostsWhatWasMeasuredWhereTheLinkIsTheSame) {
    EXPECT_EQ(price(1024).seconds, 1e-5);
    EXPECT_EQ(price(1'000'000'000).seconds, 9e-3);
}

TEST_F(CurveOnAnotherLink, PaysWhatASlowerLinkAddsToEachHop) {
    cluster_.intra_node.latency_us = 12;
    EXPECT_DOUBLE_EQ(price(1024).seconds, 1e-5 + 14 * 10e-6);
    EXPECT_DOUBLE_EQ(price(1'000'000'000).seconds, 9e-3 + 14 * 10e-6);
    EXPECT_EQ(price(1024).relative_sd, 0.04);
}

TEST_F(CurveOnAnotherLink, SavesInProportionOnAQuickerOne) {
    cluster_.intra_node.latency_us = 1;  // hops of half a microsecond: 2 + 7 of 16 us
    EXPECT_DOUBLE_EQ(price(1024).seconds, 1e-5 * 9 / 16);
    EXPECT_DOUBLE_EQ(price(1'000'000'000).seconds, 9e-3 - 1e-5 * 7 / 16);
}

TEST_F(CurveOnAnotherLink, OfAnotherKindIsLessSure) {
    cluster_.intra_node.kind = plan::IntraNodeKind::pcie;
    table_.ring.front().pcie_hop_us = 5;  // where NVLink's take 1
    EXPECT_DOUBLE_EQ(price(1024).seconds, 1e-5 + 14 * 4e-6);
    EXPECT_EQ(price(1024).relative_sd, 0.08);
    // A direct link for each pair: a device of four uses 3 of its 7, where the switch gave it all.
    cluster_.intra_node.kind = plan::IntraNodeKind::xgmi;
    cluster_.intra_node.latency_us = 1;
    table_.curves = {curve(OpKind::all_gather, 4, {{1024, 1e-5}, {1e9, 9e-3}})};
    const Price of_four =
        Network(cluster_, table_).collective(OpKind::all_gather, 1'000'000'000, {4, 1, 4, 1});
    EXPECT_DOUBLE_EQ(of_four.seconds, 1e-5 + (9e-3 - 1e-5) * 7 / 3);
}

TEST_F(CurveOnAnotherLink, HoldsForAnyWhereTheProfileDoesNotSay) {
    table_.measured_link.reset();
    cluster_.intra_node.latency_us = 1000;
    EXPECT_EQ(price(1024).seconds, 1e-5);
}

TEST(Network, PacketsOfEthernetCarryLess) {
    CollectiveTable table = plain_table();
    table.inter_node_kind = plan::InterNodeKind::infiniband;
    plan::Cluster cluster = plain_cluster(2);
    const GroupShape shape{16, 2, 8, 1};
    EXPECT_EQ(Network(cluster, table).links(shape).network_GBps, 80);
    cluster.inter_node.kind = plan::InterNodeKind::roce;
    // 4,096 bytes in 4,178 of RoCE, in 4,122 of InfiniBand.
    EXPECT_DOUBLE_EQ(Network(cluster, table).links(shape).network_GBps, 80 * 4122 / 4178.0);
    EXPECT_EQ(Network(cluster, table).node_kBps(),
              static_cast<std::int64_t>(80 * (4122 / 4178.0) * 1e6));
    table.inter_node_kind = plan::InterNodeKind::roce;
    EXPECT_EQ(Network(cluster, table).links(shape).network_GBps, 80);
}

TEST(Network, SiblingsShareTheNodesNetwork) {
    const Network network(plain_cluster(4), plain_table());
    const GroupShape alone{16, 4, 4, 1};
    GroupShape shared = alone;
    shared.siblings_per_node = 4;
    // Alone: 4 members reach 4 of the 8 NICs, 40 GB/s. Of four groups each has a quarter of 80.
    EXPECT_DOUBLE_EQ(network.links(alone).network_GBps, 40);
    EXPECT_DOUBLE_EQ(network.links(shared).network_GBps, 20);
    const std::int64_t bytes = 1 << 30;
    const double latency = network.collective(OpKind::all_gather, 0, alone).seconds;
    EXPECT_NEAR(network.collective(OpKind::all_gather, bytes, shared).seconds - latency,
                2 * (network.collective(OpKind::all_gather, bytes, alone).seconds - latency),
                1e-12);
}

TEST(Network, EfficiencyAndOversubscriptionNarrowIt) {
    CollectiveTable table = plain_table();
    table.inter_node.efficiency = 0.5;
    plan::Cluster cluster = plain_cluster(4);
    cluster.inter_node.oversubscription = 2;
    // 80 GB/s of NICs, half through the fabric, half of that achieved.
    EXPECT_DOUBLE_EQ(Network(cluster, table).links({32, 4, 8, 1}).network_GBps, 20);
}

TEST(Network, AnAllReduceTakesTheBestAlgorithm) {
    CollectiveTable table = plain_table();
    const Network network(plain_cluster(64), table);
    const GroupShape shape{64, 64, 1, 8};
    const GroupLinks links = network.links(shape);
    for (std::int64_t bytes : {std::int64_t{1000}, std::int64_t{4'000'000'000}}) {
        const auto size = static_cast<double>(bytes);
        EXPECT_EQ(network.collective(OpKind::all_reduce, bytes, shape).seconds,
                  std::min(ring_seconds(OpKind::all_reduce, size, links, table.ring),
                           tree_seconds(size, links, table.tree)));
    }
    const Price price = network.collective(OpKind::all_reduce, 1000, shape);
    EXPECT_EQ(price.family, CostFamily::inter_node_collective);
    EXPECT_EQ(price.relative_sd, 0.3);
}

TEST(Network, HierarchicalHalvesTheTrafficBetweenTwoNodes) {
    CollectiveTable table = plain_table();
    const GroupShape shape{16, 2, 8, 1};
    // Large messages, latency aside. Flat ring: 2·15/16·S at 80 GB/s. Hierarchical: S at 80 GB/s
    // between, 2·7/8·S at 1000 GB/s inside at the same time.
    plan::Cluster cluster = plain_cluster(2);
    cluster.intra_node.bandwidth_GBps = 1000;
    const double bytes = 1e12;
    const Network flat(cluster, table);
    EXPECT_NEAR(flat.collective(OpKind::all_reduce, 1'000'000'000'000, shape).seconds,
                1.875 * bytes / 80e9, 1e-3);
    table.hierarchical = true;
    const Network levels(cluster, table);
    EXPECT_NEAR(levels.collective(OpKind::all_reduce, 1'000'000'000'000, shape).seconds,
                bytes / 80e9, 1e-3);
    // Nothing but an all-reduce goes that way, and nothing where a node has one rank.
    EXPECT_EQ(levels.collective(OpKind::all_gather, 1 << 30, shape).seconds,
              flat.collective(OpKind::all_gather, 1 << 30, shape).seconds);
    EXPECT_EQ(levels.collective(OpKind::all_reduce, 1 << 30, {2, 2, 1, 8}).seconds,
              flat.collective(OpKind::all_reduce, 1 << 30, {2, 2, 1, 8}).seconds);
}

TEST(Network, AMessageIsHalfAnAllGatherOfTwo) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_gather, 2, {{2e6, 3e-5}})};
    const Network network(plain_cluster(2), table);
    const Price inside = network.point_to_point(1'000'000, {true, 5});
    EXPECT_EQ(inside.seconds, 3e-5);
    EXPECT_EQ(inside.family, CostFamily::point_to_point);
    // Between nodes: 2 + 3 + 4 µs and 10 MB at one NIC's 10 GB/s; sixteen flows share 80 GB/s.
    EXPECT_NEAR(network.point_to_point(10'000'000, {false, 1}).seconds, 1009 * kMicro, 1e-15);
    EXPECT_NEAR(network.point_to_point(10'000'000, {false, 8}).seconds, 1009 * kMicro, 1e-15);
    EXPECT_NEAR(network.point_to_point(10'000'000, {false, 16}).seconds, 2009 * kMicro, 1e-15);
}

// Round a ring everybody sends at once: as long as the slowest message.
TEST(Network, AMessageHasACurveOfItsOwnWhereItWasTimed) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_gather, 2, {{2048, 5e-6}, {1 << 20, 9e-5}}),
                    curve(OpKind::exchange, 2, {{1024, 3e-5}, {1 << 20, 4e-4}})};
    const Network network(plain_cluster(2), table);
    const Price within = network.point_to_point(1024, {});
    EXPECT_EQ(within.seconds, 3e-5);  // threads are woken: more than half of an all-gather of 2048
    EXPECT_EQ(within.family, CostFamily::point_to_point);
    EXPECT_EQ(within.relative_sd, 0.04);
    // Between nodes it is that of the links, as ever.
    Hop between;
    between.same_node = false;
    EXPECT_EQ(network.point_to_point(1024, between).seconds,
              Network(plain_cluster(2), plain_table()).point_to_point(1024, between).seconds);
}

TEST(Network, AShiftIsItsSlowestMessage) {
    const Network network(plain_cluster(4), plain_table());
    const auto shift = [&](const GroupShape& shape) {
        return network.collective(OpKind::shift, 10'000'000, shape).seconds;
    };
    const double inside = network.point_to_point(10'000'000, {true, 1}).seconds;
    EXPECT_EQ(shift({8, 1, 8, 1}), inside);
    EXPECT_EQ(shift({2, 1, 2, 1}), inside);
    // One of each group's messages leaves a node: those of sixteen groups share it.
    EXPECT_EQ(shift({16, 2, 8, 1}), network.point_to_point(10'000'000, {false, 1}).seconds);
    EXPECT_EQ(shift({4, 4, 1, 16}), network.point_to_point(10'000'000, {false, 16}).seconds);
    EXPECT_EQ(shift({1, 1, 1, 1}), 0);
}

// Each rank has a message of S/N for each other one.
TEST(Network, AnAllToAllTakesAsLongAsItsMessagesWithinOrBetweenNodes) {
    const Network network(plain_cluster(4), plain_table());
    const auto exchange = [&](const GroupShape& shape) {
        return network.collective(OpKind::all_to_all, 80'000'000, shape).seconds;
    };
    EXPECT_EQ(exchange({8, 1, 8, 1}),
              network.collective(OpKind::all_gather, 80'000'000, {8, 1, 8, 1}).seconds);
    // 3 of 4 messages, 60 MB, between nodes; alone, and where sixteen ranks of a node send.
    EXPECT_EQ(exchange({4, 4, 1, 1}), network.point_to_point(60'000'000, {false, 1}).seconds);
    EXPECT_EQ(exchange({4, 4, 1, 16}), network.point_to_point(60'000'000, {false, 16}).seconds);
    // 8 of 16 from each of the node's 8 ranks.
    EXPECT_EQ(exchange({16, 2, 8, 1}), network.point_to_point(40'000'000, {false, 8}).seconds);
}

// Over the network what is for nodes; within them, while it comes in, what is for their devices, as
// fast as DeepEP's and HybridEP's tables say: 0.57 of the link's rate, of the network's 0.5 between
// two nodes and 0.8 between more.
TEST(Network, CopiesPassTheNetworkOnceForANode) {
    const plan::Cluster cluster = plain_cluster(4);
    const Network network(cluster, plain_table());
    const GroupShape node{8, 1, 8, 1}, over{16, 2, 8, 1};
    const auto within = [&](double bytes) {
        return network.collective(OpKind::all_gather, 0, node).seconds +
               7.0 / 8 * bytes / (0.57 * cluster.intra_node.bandwidth_GBps * 1e9);
    };
    EXPECT_NEAR(network.copies(80e6, 80e6, node).seconds, within(80e6), 1e-12);
    EXPECT_NEAR(network.copies(80e6, 8e3, over).seconds, within(80e6), 1e-12);
    // Half of what is for nodes is for the other one, beside that of seven more devices.
    const double start = network.point_to_point(0, {false, 8}).seconds;
    const double rate =
        cluster.inter_node.nics_per_node * cluster.inter_node.bandwidth_Gbps / 8 * 1e9;
    EXPECT_NEAR(network.copies(8e3, 20e6, over).seconds, start + 8 * 10e6 / (0.5 * rate), 1e-9);
    EXPECT_NEAR(network.copies(8e3, 20e6, {32, 4, 8, 1}).seconds, start + 8 * 15e6 / (0.8 * rate),
                1e-9);
    EXPECT_EQ(network.copies(80e6, 200e6, over).seconds, network.copies(8e3, 200e6, over).seconds);
    EXPECT_EQ(network.copies(80e6, 80e6, {1, 1, 1, 1}).seconds, 0);
}

TEST(NetworkDeathTest, RefusesWhatItCannotPrice) {
    const Network network(plain_cluster(2), plain_table());
    EXPECT_DEATH(network.collective(OpKind::exchange, 8, {2, 1, 2, 1}), "not a collective");
    EXPECT_DEATH(network.collective(OpKind::all_gather, -1, {2, 1, 2, 1}), "negative size");
    EXPECT_DEATH(network.collective(OpKind::all_gather, 8, {24, 3, 8, 1}), "does not fit");
    EXPECT_DEATH(network.collective(OpKind::all_gather, 8, {20, 2, 8, 1}), "does not fit");
}

GroupShape any_shape() {
    GroupShape shape;
    shape.nodes = *rc::gen::inRange(1, 65);
    shape.ranks_per_node = *rc::gen::inRange(1, 9);
    shape.ranks = shape.nodes * shape.ranks_per_node;
    shape.siblings_per_node = *rc::gen::inRange(1, 9);
    return shape;
}

CollectiveTable any_table() {
    CollectiveTable table = plain_table();
    table.tree.front().size_correction = {1, 0.7, 0.4, 0.5, 0.9, 1};
    table.ring.push_back(link_protocol(0.5, 0.2, 1, 0.4));
    table.hierarchical = *rc::gen::arbitrary<bool>();
    return table;
}

RC_GTEST_PROP(Network, NeverChargesLessForMore, ()) {
    CollectiveTable table = any_table();
    table.curves = {curve(OpKind::all_reduce, 8, {{1024, 1e-5}, {1e6, 3e-5}, {1e8, 2.5e-3}})};
    const Network network(plain_cluster(64), table);
    const GroupShape shape = any_shape();
    const OpKind kind = *rc::gen::elementOf(
        std::vector<OpKind>{OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter});
    const std::int64_t bytes = *rc::gen::inRange<std::int64_t>(0, 1 << 30);
    const std::int64_t more = bytes + *rc::gen::inRange<std::int64_t>(0, 1 << 20);
    const double less = network.collective(kind, bytes, shape).seconds;
    RC_ASSERT(less <= network.collective(kind, more, shape).seconds * (1 + 1e-12));
}

RC_GTEST_PROP(Network, NeverBeatsTheBottleneck, ()) {
    const Network network(plain_cluster(64), any_table());
    const GroupShape shape = any_shape();
    RC_PRE(shape.ranks > 1);
    const std::int64_t bytes = *rc::gen::inRange<std::int64_t>(1, 1 << 30);
    // What has to leave a node (its share of the result, or of the others' input) over what the
    // group may send; a node whose members are all there must send within.
    const double out = shape.nodes > 1 ? (shape.nodes - 1.0) / shape.nodes : 0;
    const double in = (shape.ranks_per_node - 1.0) / shape.ranks;
    for (OpKind kind : kCollectives) {
        const double twice = kind == OpKind::all_reduce ? 2 : 1;
        const GroupLinks links = network.links(shape);
        const double seconds = network.collective(kind, bytes, shape).seconds * (1 + 1e-12);
        const double size = static_cast<double>(bytes);
        if (shape.nodes > 1) RC_ASSERT(seconds >= twice * out * size / (links.network_GBps * 1e9));
        RC_ASSERT(seconds >= twice * in * size / (links.intra_GBps * 1e9));
    }
}

RC_GTEST_PROP(Network, GivesTheSameBitsEveryTimeAndWhateverTheOrderOfCurves, ()) {
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_reduce, 2, {{1024, 1e-5}, {1e8, 2.5e-3}}),
                    curve(OpKind::all_reduce, 4, {{1024, 1.5e-5}, {1e8, 2.7e-3}}),
                    curve(OpKind::all_reduce, 8, {{1024, 2e-5}, {1e8, 2.9e-3}})};
    const Network first(plain_cluster(2), table);
    std::reverse(table.curves.begin(), table.curves.end());
    const Network second(plain_cluster(2), table);
    const int ranks = *rc::gen::inRange(2, 9);
    const std::int64_t bytes = *rc::gen::inRange<std::int64_t>(0, 1 << 30);
    RC_ASSERT(first.collective(OpKind::all_reduce, bytes, {ranks, 1, ranks, 1}).seconds ==
              second.collective(OpKind::all_reduce, bytes, {ranks, 1, ranks, 1}).seconds);
}

TEST(Network, PinsTheBitsOfAnInterpolation) {
    // The geometric bisection in exact steps: between (1, 1) and (2^16, 2^32) the line is bytes²,
    // and every midpoint is a power of two whose root is exact.
    CollectiveTable table = plain_table();
    table.curves = {curve(OpKind::all_reduce, 8, {{1, 1}, {65536, 4294967296.0}})};
    const Network network(plain_cluster(1), table);
    EXPECT_EQ(network.collective(OpKind::all_reduce, 256, {8, 1, 8, 1}).seconds, 65536.0);
    EXPECT_EQ(network.collective(OpKind::all_reduce, 16, {8, 1, 8, 1}).seconds, 256.0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
