#include "sim/network/algorithms.hpp"

#include <gtest/gtest.h>

#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

constexpr double kMicro = 1e-6;

TEST(BytesSentPerRank, AreThoseOfARing) {
    // 8 ranks, 80 bytes: an all-gather passes on 7 shards of 10, an all-reduce that twice.
    EXPECT_DOUBLE_EQ(bytes_sent_per_rank(OpKind::all_gather, 80, 8), 70);
    EXPECT_DOUBLE_EQ(bytes_sent_per_rank(OpKind::reduce_scatter, 80, 8), 70);
    EXPECT_DOUBLE_EQ(bytes_sent_per_rank(OpKind::all_reduce, 80, 8), 140);
    EXPECT_DOUBLE_EQ(bytes_sent_per_rank(OpKind::exchange, 80, 2), 80);
}

TEST(BytesSentPerRank, IsNothingAlone) {
    for (OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce})
        EXPECT_EQ(bytes_sent_per_rank(kind, 1e9, 1), 0);
}

TEST(BytesSentPerRankDeathTest, RefusesOpsThatDoNotCommunicate) {
    EXPECT_DEATH(bytes_sent_per_rank(OpKind::gemm, 1, 2), "does not communicate");
}

GroupLinks one_node(int ranks) {
    GroupLinks links;
    links.ranks = links.ranks_per_node = ranks;
    links.intra_GBps = 50;
    return links;
}

GroupLinks many_nodes(int nodes, int per_node) {
    GroupLinks links = one_node(per_node);
    links.ranks = nodes * per_node;
    links.nodes = nodes;
    links.network_GBps = 20;
    links.network_latency_us = 4;
    return links;
}

TEST(Ring, WithinANodeIsStepsTimesLatencyPlusBytesOverBandwidth) {
    const auto links = one_node(4);
    const std::vector<ProtocolConstants> protocols{link_protocol(2, 1, 3)};
    // 2 + 3 hops of 1 µs; 3/4 of 100 MB at 50 GB/s = 1500 µs. The all-reduce goes round twice.
    EXPECT_NEAR(ring_seconds(OpKind::all_gather, 100e6, links, protocols), 1505 * kMicro, 1e-15);
    EXPECT_NEAR(ring_seconds(OpKind::all_reduce, 100e6, links, protocols), 3008 * kMicro, 1e-15);
}

TEST(Ring, AcrossNodesTakesTheSlowerLinkAndCrossesOncePerNode) {
    // 4 nodes × 2: 7 steps, 3 of which cross (3 + 4 µs), 4 inside (1 µs); 7/8 of 80 MB at 20 GB/s.
    EXPECT_NEAR(
        ring_seconds(OpKind::reduce_scatter, 80e6, many_nodes(4, 2), {link_protocol(2, 1, 3)}),
        (2 + 3 * 7 + 4 * 1 + 3500) * kMicro, 1e-15);
}

TEST(Ring, WaitsForTheNetworkAsOftenAsTheProtocolDoes) {
    ProtocolConstants flushing = link_protocol(2, 1, 3);
    flushing.network_latencies = 2;
    const auto links = many_nodes(4, 2);
    EXPECT_NEAR(ring_seconds(OpKind::all_gather, 0, links, {flushing}) -
                    ring_seconds(OpKind::all_gather, 0, links, {link_protocol(2, 1, 3)}),
                3 * 4 * kMicro, 1e-15);
}

TEST(Ring, ARankAloneInItsNodeHasTheExposedHopAndNoInnerLink) {
    ProtocolConstants protocol = link_protocol(2, 1, 3);
    protocol.inter_node_alone_hop_us = 9;
    GroupLinks links = many_nodes(4, 1);
    links.intra_GBps = 1e-3;  // of no consequence: nothing travels inside
    // 3 steps of 9 + 4 µs, 3/4 of 80 MB at 20 GB/s.
    EXPECT_NEAR(ring_seconds(OpKind::all_gather, 80e6, links, {protocol}),
                (2 + 3 * 13 + 3000) * kMicro, 1e-15);
}

TEST(Ring, TakesTheBestProtocolOfEachSize) {
    const ProtocolConstants quick = link_protocol(1, 1, 1, 0.5);
    const ProtocolConstants wide = link_protocol(100, 1, 1, 1);
    const auto links = one_node(2);
    for (double bytes : {1e3, 1e9}) {
        const double best = std::min(ring_seconds(OpKind::all_gather, bytes, links, {quick}),
                                     ring_seconds(OpKind::all_gather, bytes, links, {wide}));
        EXPECT_EQ(ring_seconds(OpKind::all_gather, bytes, links, {quick, wide}), best);
    }
    EXPECT_LT(ring_seconds(OpKind::all_gather, 1e3, links, {quick, wide}), 100 * kMicro);
}

TEST(Ring, HoldsToTheProtocolsLimitBetweenNodes) {
    ProtocolConstants limited = link_protocol(0, 0, 0);
    limited.network_limit_GBps = 5;
    GroupLinks links = many_nodes(2, 1);
    links.network_latency_us = 0;
    EXPECT_NEAR(ring_seconds(OpKind::all_gather, 10e6, links, {limited}), 5e6 / 5e9, 1e-15);
}

TEST(Tree, IsLogarithmicInNodesAndSendsTheMessageUpAndDown) {
    // 8 nodes × 4: 2·(3 hops inside + 3 levels × (3 + 4 µs)); 2 × 80 MB at 20 GB/s.
    EXPECT_NEAR(tree_seconds(80e6, many_nodes(8, 4), {link_protocol(2, 1, 3)}),
                (2 + 2 * (3 + 3 * 7) + 8000) * kMicro, 1e-15);
}

TEST(Tree, BeatsTheRingForSmallMessagesOfManyNodesOnly) {
    const std::vector<ProtocolConstants> protocols{link_protocol(2, 1, 3)};
    const auto links = many_nodes(64, 1);
    EXPECT_LT(tree_seconds(1e3, links, protocols),
              ring_seconds(OpKind::all_reduce, 1e3, links, protocols));
    EXPECT_GT(tree_seconds(10e9, links, protocols),
              ring_seconds(OpKind::all_reduce, 10e9, links, protocols));
}

TEST(Tree, LosesBandwidthWhereItsSizeCorrectionSaysSo) {
    ProtocolConstants protocol = link_protocol(0, 0, 0);
    protocol.size_correction = {1, 0.5};  // at 64 and 128 B
    GroupLinks links = many_nodes(2, 1);
    links.network_latency_us = 0;
    EXPECT_NEAR(tree_seconds(128, links, {protocol}), 2 * 2 * 128 / 20e9, 1e-20);
    EXPECT_NEAR(tree_seconds(96, links, {protocol}), 2 * 96 / (0.75 * 20e9), 1e-20);
    EXPECT_NEAR(tree_seconds(256, links, {protocol}), 2 * 256 / 20e9, 1e-20);
}

TEST(Hierarchical, IsTheSlowerStagePlusTheFillOfTheOther) {
    EXPECT_DOUBLE_EQ(hierarchical_seconds({5, 1}, {9, 2}), 10);
    EXPECT_DOUBLE_EQ(hierarchical_seconds({9, 1}, {5, 2}), 11);
}

TEST(Hierarchical, IsWhatHappensBetweenNodesWhenThereIsNoInside) {
    EXPECT_DOUBLE_EQ(hierarchical_seconds({0, 0}, {9, 2}), 9);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
