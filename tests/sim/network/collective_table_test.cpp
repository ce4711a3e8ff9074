#include "sim/network/collective_table.hpp"

#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/cost/profile.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

TEST(Interpolate, HitsItsPointsExactly) {
    const std::vector<CurvePoint> points{
        {512, 9.7e-6}, {4096, 1.13e-5}, {65536, 1.13e-5}, {1 << 20, 3.4e-5}};
    for (const CurvePoint& point : points)
        EXPECT_EQ(interpolate(points, point.bytes), point.seconds);
}

TEST(Interpolate, IsAPowerLawBetweenPoints) {
    // seconds = bytes^(2/3) through (1, 1) and (1e6, 1e4).
    const std::vector<CurvePoint> points{{1, 1}, {1e6, 1e4}};
    for (double bytes : {3.0, 27.0, 1000.0, 64000.0, 999999.0})
        EXPECT_NEAR(interpolate(points, bytes) / std::pow(bytes, 2.0 / 3), 1, 1e-8) << bytes;
}

TEST(Interpolate, IsConstantBelowAndKeepsItsBandwidthAbove) {
    const std::vector<CurvePoint> points{{100, 2}, {1000, 5}};
    EXPECT_EQ(interpolate(points, 0), 2);
    EXPECT_EQ(interpolate(points, 99), 2);
    EXPECT_DOUBLE_EQ(interpolate(points, 4000), 20);
}

RC_GTEST_PROP(Interpolate, NeverFallsAndStaysBetweenItsPoints, ()) {
    std::vector<CurvePoint> points{{64, 1e-6}};
    const int extra = *rc::gen::inRange(1, 20);
    for (int i = 0; i < extra; ++i)
        points.push_back({points.back().bytes * *rc::gen::inRange(2, 9),
                          points.back().seconds * (1 + *rc::gen::inRange(0, 800) / 100.0)});
    const double a = *rc::gen::inRange(1, 1 << 30);
    const double b = a + *rc::gen::inRange(0, 1 << 20);
    RC_ASSERT(interpolate(points, a) <= interpolate(points, b));
    RC_ASSERT(interpolate(points, a) >= points.front().seconds);
}

TEST(ProtocolConstants, TakesTheClustersLatencyForLinksItDoesNotKnow) {
    ProtocolConstants protocol;
    protocol.nvswitch_hop_us = 0.6;
    EXPECT_EQ(protocol.intra_hop_us(plan::IntraNodeKind::nvswitch, 7), 0.6);
    EXPECT_EQ(protocol.intra_hop_us(plan::IntraNodeKind::pcie, 7), 7);
    EXPECT_EQ(protocol.intra_hop_us(plan::IntraNodeKind::host, 7), 7);
}

TEST(ProtocolConstants, MovesAHopWithTheLatencyOfTheLink) {
    ProtocolConstants protocol;
    protocol.nvswitch_hop_us = 0.6;
    protocol.nvswitch_link_us = 2;
    const auto hop = [&](double link_us) {
        return protocol.intra_hop_us(plan::IntraNodeKind::nvswitch, link_us);
    };
    EXPECT_EQ(hop(2), 0.6);
    EXPECT_DOUBLE_EQ(hop(12), 0.6 + 10);     // the whole of what a slower link adds
    EXPECT_DOUBLE_EQ(hop(0.5), 0.6 * 0.25);  // of a quicker one the same share
    EXPECT_EQ(hop(0), 0);
}

RC_GTEST_PROP(ProtocolConstants, CorrectionNeverMakesALargerMessageFaster, ()) {
    ProtocolConstants protocol;
    protocol.size_correction = {1, 0.6, 0.4, 0.4, 0.8, 0.5};
    const double a = *rc::gen::inRange(1, 10000);
    const double b = a + *rc::gen::inRange(0, 1000);
    RC_ASSERT(a / protocol.correction(a) <= b / protocol.correction(b) * (1 + 1e-14));
}

json valid_section() {
    return json::parse(R"({
      "measured_on": {"system": "box", "intra_node_bandwidth_GBps": 300, "source": "sheet"},
      "curves": [
        {"collective": "reduce_scatter", "ranks": 4, "points": [[1024, 10], [2048, 11.5]],
         "relative_sd": 0.05, "source": "bench"},
        {"collective": "all_reduce", "ranks": 8, "points": [[512, 20]], "relative_sd": 0.1,
         "source": "bench"}],
      "algorithms": {"source": "library",
        "ring": [{"name": "LL", "base_us": 6.6,
                  "hop_us": {"nvswitch": 0.6, "inter_node": 2.7, "inter_node_alone": 5},
                  "bandwidth_factor": 0.5, "network_latencies": 1, "network_limit_GBps": 19,
                  "size_correction": [1, 0.5]}],
        "tree": [], "hierarchical": true},
      "intra_node": {"efficiency": 0.7, "relative_sd": 0.1, "source": "bench"},
      "inter_node": {"efficiency": 0.8, "relative_sd": 0.3, "source": "assumed"}})");
}

TEST(ReadCollectives, ReadsEveryField) {
    const CollectiveTable table = read_collectives(valid_section(), "p.json");
    EXPECT_EQ(table.system, "box");
    EXPECT_EQ(table.measured_bandwidth_GBps, 300);
    ASSERT_EQ(table.curves.size(), 2u);
    const CollectiveCurve* curve = table.find(plan::OpKind::reduce_scatter, 4);
    ASSERT_NE(curve, nullptr);
    EXPECT_EQ(curve->points, (std::vector<CurvePoint>{{1024, 10 * 1e-6}, {2048, 11.5 * 1e-6}}));
    EXPECT_EQ(curve->relative_sd, 0.05);
    EXPECT_EQ(table.find(plan::OpKind::reduce_scatter, 8), nullptr);
    ASSERT_EQ(table.ring.size(), 1u);
    const ProtocolConstants& ring = table.ring.front();
    EXPECT_EQ(ring.nvswitch_hop_us, 0.6);
    EXPECT_EQ(ring.pcie_hop_us, std::nullopt);
    EXPECT_EQ(ring.inter_node_hop_us, 2.7);
    EXPECT_EQ(ring.inter_node_alone_hop_us, 5);
    EXPECT_EQ(ring.network_limit_GBps, 19);
    EXPECT_EQ(ring.size_correction, (std::vector<double>{1, 0.5}));
    EXPECT_TRUE(table.tree.empty());
    EXPECT_TRUE(table.hierarchical);
    EXPECT_EQ(table.algorithm_source, "library");
    EXPECT_EQ(table.inter_node.efficiency, 0.8);
    EXPECT_EQ(table.inter_node.source, "assumed");
    EXPECT_FALSE(table.measured_link || table.inter_node_kind || ring.nvswitch_link_us);
}

TEST(ReadCollectives, ReadsOnWhichLinksFiguresWereFound) {
    json section = valid_section();
    section["measured_on"]["intra_node_kind"] = "pcie";
    section["measured_on"]["intra_node_latency_us"] = 4;
    section["algorithms"]["link_latency_us"] = {{"nvswitch", 2}, {"pcie", 5}, {"source", "a"}};
    section["inter_node"]["kind"] = "ethernet";
    const CollectiveTable table = read_collectives(section, "p.json");
    ASSERT_TRUE(table.measured_link);
    EXPECT_EQ(table.measured_link->kind, plan::IntraNodeKind::pcie);
    EXPECT_EQ(table.measured_link->latency_us, 4);
    EXPECT_EQ(table.ring.front().nvswitch_link_us, 2);
    EXPECT_EQ(table.ring.front().pcie_link_us, 5);
    EXPECT_EQ(table.inter_node_kind, plan::InterNodeKind::ethernet);
}

std::string error_of(const json& section) {
    try {
        parse_collectives(section.dump(), "p.json");
    } catch (const ProfileError& error) {
        return error.what();
    }
    return "";
}

struct Fault {
    const char* pointer;
    json value;  // null: erase
    const char* message;
};

TEST(ReadCollectives, SaysWhereAFaultIs) {
    const std::vector<Fault> faults{
        {"/measured_on/system", nullptr, "/collectives/measured_on/system: missing"},
        {"/measured_on/intra_node_kind", "pcie",
         "/collectives/measured_on/intra_node_latency_us: missing"},
        {"/measured_on/intra_node_kind", "nvlink",
         "/collectives/measured_on/intra_node_kind: one of nvswitch, xgmi, pcie, host, "
         "hybrid_cube_mesh, torus is expected"},
        {"/inter_node/kind", "token_ring",
         "/collectives/inter_node/kind: one of none, infiniband, ethernet, roce, efa, slingshot, "
         "omni_path is expected"},
        {"/extra", 1, "/collectives/extra: unknown key"},
        {"/curves/0/collective", "all_to_all",
         "/collectives/curves/0/collective: all_reduce, all_gather, reduce_scatter or exchange is "
         "expected"},
        {"/curves/1/points", json::array(),
         "/collectives/curves/1/points: at least one point is expected"},
        {"/curves/0/points/1",
         {1024, 12},
         "/collectives/curves/0/points/1: bytes must grow from point to point"},
        {"/curves/0/points/1",
         {2048, 9},
         "/collectives/curves/0/points/1: time must not fall as bytes grow"},
        {"/curves/0/source", nullptr,
         "/collectives/curves/0/ranks: the number has no source, neither has its section"},
        {"/curves/0/ranks", 2.5,
         "/collectives/curves/0/ranks: an integer from 2 to 1000000 is expected"},
        {"/curves/2", valid_section()["curves"][0],
         "/collectives/curves/2: a second curve of this collective and rank count"},
        {"/algorithms/ring", json::array(),
         "/collectives/algorithms/ring: at least one protocol is expected"},
        {"/algorithms/ring/0/hop_us/nvlink", 1,
         "/collectives/algorithms/ring/0/hop_us/nvlink: unknown key"},
        {"/algorithms/ring/0/size_correction",
         {0.2, 0.5},
         "/collectives/algorithms/ring/0/size_correction/1: a factor may at most double from one "
         "size to the next"},
        {"/intra_node/efficiency", 1.2,
         "/collectives/intra_node/efficiency: a share in (0, 1] is expected"},
        {"/inter_node/source", nullptr,
         "/collectives/inter_node/efficiency: the number has no source, neither has its section"},
    };
    for (const Fault& fault : faults) {
        json section = valid_section();
        const json::json_pointer pointer(fault.pointer);
        if (fault.value.is_null())
            section[pointer.parent_pointer()].erase(pointer.back());
        else
            section[pointer] = fault.value;
        EXPECT_EQ(error_of(section), std::string("p.json: ") + fault.message);
    }
    EXPECT_EQ(error_of(valid_section()), "");
}

TEST(ReadCollectives, SaysThatTextIsNotJson) {
    try {
        parse_collectives("{", "p.json");
        FAIL();
    } catch (const ProfileError& error) {
        EXPECT_EQ(std::string(error.what()).rfind("p.json: /collectives: not JSON: ", 0), 0u);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
