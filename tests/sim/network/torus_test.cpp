// What groups and messages find in a torus, against link by link counts and published figures.
#include "sim/network/torus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/cost/profile.hpp"
#include "sim/network/collective_cost.hpp"
#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;
using Axes = std::vector<plan::TorusAxis>;
using Groups = std::vector<std::vector<int>>;

Axes rings(std::initializer_list<std::int64_t> lengths) {
    Axes axes;
    for (const std::int64_t length : lengths)
        axes.push_back({length, true});
    return axes;
}

Axes rows(std::initializer_list<std::int64_t> lengths) {
    Axes axes = rings(lengths);
    for (plan::TorusAxis& axis : axes)
        axis.wraps = false;
    return axes;
}

int devices_of(const Axes& axes) {
    int all = 1;
    for (const plan::TorusAxis& axis : axes)
        all *= static_cast<int>(axis.devices);
    return all;
}

// All groups of `count` devices that are `stride` numbers apart, as layouts have them.
Groups groups_of(int count, int stride, const Axes& axes) {
    Groups groups;
    for (int device = 0; device < devices_of(axes); ++device) {
        if (device / stride % count != 0) continue;
        groups.emplace_back();
        for (int member = 0; member < count; ++member)
            groups.back().push_back(device + member * stride);
    }
    return groups;
}

TorusPlace place_of(int count, int stride, const Axes& axes) {
    const std::vector<TorusPlace> places = torus_places(groups_of(count, stride, axes), axes);
    EXPECT_EQ(std::adjacent_find(places.begin(), places.end(), std::not_equal_to<>()),
              places.end());
    return places.front();
}

TEST(Torus, GoesTheShorterWayRoundOnEachAxis) {
    const Axes axes = rings({4, 8});
    EXPECT_EQ(torus_hop(0, 3, axes).links, 1);
    EXPECT_EQ(torus_hop(0, 4 * 5 + 2, axes).links, 2 + 3);
    EXPECT_EQ(torus_hop(0, 4 * 5 + 2, axes).flows, 3);
    EXPECT_EQ(torus_hop(0, 3, rows({4, 8})).links, 3);
    EXPECT_EQ(torus_hop(0, 4 * 5 + 2, rows({4, 8})).links, 2 + 5);
}

TEST(Torus, GathersOverAllLinksOfItsAxes) {
    const Axes axes = rings({4, 4, 8});
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(4, 1, axes)), 2);
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(16, 1, axes)), 4);
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(128, 1, axes)), 6);
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(8, 16, axes)), 2);
    EXPECT_EQ(torus_steps(place_of(4, 1, axes), 4), 2);
    EXPECT_EQ(torus_steps(place_of(128, 1, axes), 128), 2 + 2 + 4);
    // Ends of a row have one neighbour, and so have those of half an axis.
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(4, 1, rows({4, 4}))), 1);
    EXPECT_EQ(torus_steps(place_of(4, 1, rows({4, 4})), 4), 3);
    EXPECT_DOUBLE_EQ(torus_lanes(place_of(4, 16, axes)), 1);
}

// Every second place of an axis: two groups on each of its links, two links from place to place.
TEST(Torus, SharesLinksWithGroupsThatLieThroughIt) {
    const TorusPlace ring = place_of(4, 2, rings({8, 2}));
    EXPECT_TRUE(ring.axes[0].ring);
    EXPECT_EQ(ring.axes[0].sharers, 2);
    EXPECT_EQ(ring.axes[0].links, 2);
    EXPECT_DOUBLE_EQ(torus_lanes(ring), 1);
    EXPECT_EQ(torus_steps(ring, 4), 4);
    const TorusPlace row = place_of(4, 2, rows({8, 2}));
    EXPECT_DOUBLE_EQ(torus_lanes(row), 0.5);
    // Side by side they share nothing.
    EXPECT_EQ(place_of(4, 1, rows({8, 2})).axes[0].sharers, 1);
}

// Six of eight in a row and two of the next are no box: round in their order, both ways at once.
TEST(Torus, GoesRoundWhereAGroupIsNoBox) {
    const Axes axes = rows({8, 2});
    const TorusPlace place = torus_places({{2, 3, 4, 5, 6, 7, 8, 9}}, axes).front();
    EXPECT_FALSE(place.box);
    EXPECT_EQ(place.next_links, 7 + 1);  // from 7, the last of the first row, to 8 below its first
    // 2 to 7 one by one, and under the way back from 7 to 8; the way from 9 to 2 is one up, one on.
    EXPECT_EQ(place.next_flows, 1);
    EXPECT_EQ(place.round_flows, 2);
    EXPECT_DOUBLE_EQ(torus_lanes(place), 1);
}

// Each pair of members exchanges one unit of 1/N, the shorter way, half of it each way where both
// are as long: what the busiest link of each axis carries, counted.
double counted_exchange(const Groups& groups, const Axes& axes) {
    using LinkOf = std::tuple<std::size_t, int, bool>;  // of an axis, from a position, upwards
    std::map<LinkOf, double> loads;
    const auto travel = [&](std::size_t axis, int step, int position, int way, double load) {
        const int length = static_cast<int>(axes[axis].devices);
        const int line = position - position / step % length * step;
        for (int link = 0; link < std::abs(way); ++link) {
            loads[{axis, position, way > 0}] += load;
            const int place = (position / step + (way > 0 ? 1 : length - 1)) % length;
            position = line + place * step;
        }
        return position;
    };
    for (const auto& group : groups)
        for (const int from : group)
            for (const int to : group) {
                int position = from, step = 1;
                for (std::size_t axis = 0; axis < axes.size(); ++axis) {
                    const int length = static_cast<int>(axes[axis].devices);
                    const int up = to / step % length - from / step % length;
                    const double load = 1.0 / static_cast<double>(group.size());
                    const int round = (up + length) % length;
                    if (!axes[axis].wraps) {
                        position = travel(axis, step, position, up, load);
                    } else if (2 * round == length) {
                        travel(axis, step, position, round, load / 2);
                        position = travel(axis, step, position, -round, load / 2);
                    } else {
                        position = travel(axis, step, position,
                                          2 * round < length ? round : round - length, load);
                    }
                    step *= length;
                }
            }
    double busiest = 0;
    for (const auto& [link, load] : loads)
        busiest = std::max(busiest, load);
    return busiest;
}

TEST(Torus, ExchangesAsFastAsItsBusiestLink) {
    struct Case {
        int count, stride;
        Axes axes;
    };
    for (const Case& of :
         {Case{8, 1, rings({8})}, Case{5, 1, rings({5})}, Case{8, 1, rows({8})},
          Case{5, 1, rows({5})}, Case{16, 1, rings({4, 4})}, Case{32, 1, rings({4, 8})},
          Case{4, 2, rings({8})}, Case{4, 2, rows({8})}, Case{16, 4, rings({4, 4, 4})},
          Case{8, 2, rings({4, 4})}, Case{64, 1, rows({4, 4, 4})}})
        EXPECT_NEAR(torus_exchange(place_of(of.count, of.stride, of.axes)),
                    counted_exchange(groups_of(of.count, of.stride, of.axes), of.axes), 1e-12)
            << of.count << " by " << of.stride << " of " << of.axes.size() << " axes";
}

// Rings in rank order, as a ring of attention goes: what one link carries, by hand.
TEST(Torus, CountsWhatPassesALinkWhereAllSendToTheNext) {
    const Axes axes = rings({4, 4});
    EXPECT_EQ(place_of(4, 1, axes).next_flows, 1);
    EXPECT_EQ(place_of(4, 4, axes).next_links, 1);
    // A row of four: back from the last to the first over three links.
    EXPECT_EQ(place_of(4, 1, rows({4, 4})).next_links, 3);
    EXPECT_EQ(place_of(4, 1, rows({4, 4})).next_flows, 1);
    // Two by two: pairs of neighbours on the second axis, whose ways lie side by side.
    EXPECT_EQ(place_of(2, 8, axes).next_links, 2);
    EXPECT_EQ(place_of(2, 8, axes).next_flows, 2);
}

// Links of 10 GB/s, 1 µs each.
plan::Cluster torus_cluster(std::int64_t nodes, const Axes& axes) {
    plan::Cluster cluster = plain_cluster(nodes);
    cluster.devices_per_node = devices_of(axes);
    cluster.intra_node = {plan::IntraNodeKind::torus, 20.0 * static_cast<double>(axes.size()), 1, 0,
                          axes};
    cluster.inter_node.nics_per_node = static_cast<int>(cluster.devices_per_node);
    return cluster;
}

std::vector<std::int64_t> members(std::int64_t count, std::int64_t stride, std::int64_t first = 0) {
    std::vector<std::int64_t> devices;
    for (std::int64_t member = 0; member < count; ++member)
        devices.push_back(first + member * stride);
    return devices;
}

TEST(Torus, PricesWhatItsLinksCarry) {
    const plan::Cluster cluster = torus_cluster(1, rings({4, 4}));
    const Network network(cluster, plain_table());
    const auto seconds = [&](OpKind kind, std::int64_t count, std::int64_t stride) {
        return network
            .collective(kind, 64'000'000, shapes_of({members(count, stride)}, cluster).front())
            .seconds;
    };
    // 8 µs and 2 links; 48 of 64 MB over two links of 10 GB/s.
    EXPECT_NEAR(seconds(OpKind::all_gather, 4, 1), 10e-6 + 48e6 / 20e9, 1e-12);
    EXPECT_NEAR(seconds(OpKind::reduce_scatter, 4, 4), 10e-6 + 48e6 / 20e9, 1e-12);
    EXPECT_NEAR(seconds(OpKind::all_reduce, 4, 1), 12e-6 + 96e6 / 20e9, 1e-12);
    EXPECT_NEAR(seconds(OpKind::all_gather, 16, 1), 12e-6 + 60e6 / 40e9, 1e-12);
    // On a ring a quarter of gathering what all four have together.
    EXPECT_NEAR(seconds(OpKind::all_to_all, 4, 1), 10e-6 + 4 * 64e6 / 4 / 20e9, 1e-12);
    EXPECT_NEAR(seconds(OpKind::all_to_all, 16, 1), 12e-6 + 64e6 / 2 / 10e9, 1e-12);
    EXPECT_NEAR(seconds(OpKind::shift, 4, 1), 5e-6 + 64e6 / 10e9, 1e-12);
    const Price message = network.point_to_point(64'000'000, hop_between(0, 8, cluster));
    EXPECT_NEAR(message.seconds, 6e-6 + 128e6 / 10e9, 1e-12);
    EXPECT_EQ(message.family, CostFamily::point_to_point);
}

// Of two nodes: inside them over the torus, and between them as one rank of each would, over all of
// a node's adapters (16 of 10 GB/s).
TEST(Torus, GoesThroughItsNodesAndThenBetweenThem) {
    const plan::Cluster cluster = torus_cluster(2, rings({4, 4}));
    const Network network(cluster, plain_table());
    const auto seconds = [&](OpKind kind) {
        return network.collective(kind, 64'000'000, shapes_of({members(32, 1)}, cluster).front())
            .seconds;
    };
    const double inside = 12e-6 + 60e6 / 40e9;
    const double between = 2e-6 + 3e-6 + 4e-6 + 32e6 / 160e9;  // base, hop, the network's latency
    EXPECT_NEAR(seconds(OpKind::all_gather), inside + between, 1e-12);
    EXPECT_NEAR(seconds(OpKind::reduce_scatter), inside + between, 1e-12);
}

// Gatherings on TPU v4, 4 × 4 × 4 with 45 GB/s of each link one way, without start and latency as
// the book has them: How To Scale Your Model, part 3, question 2. It leaves (N − 1)/N out.
TEST(Torus, GathersAsTheBookWorksOut) {
    plan::Cluster cluster = torus_cluster(1, rings({4, 4, 4}));
    cluster.intra_node.bandwidth_GBps = 270;
    const Network network(cluster, plain_table());
    const auto transfer_us = [&](const std::vector<std::int64_t>& devices, double bytes) {
        const GroupShape shape = shapes_of({devices}, cluster).front();
        const auto at = [&](std::int64_t size) {
            return network.collective(OpKind::all_gather, size, shape).seconds * 1e6;
        };
        const double ranks = shape.ranks;
        return (at(static_cast<std::int64_t>(bytes)) - at(0)) * ranks / (ranks - 1);
    };
    const double array = 2.0 * 1024 * 4096;
    EXPECT_NEAR(transfer_us(members(4, 1), array / 4), 23, 0.5);
    EXPECT_NEAR(transfer_us(members(4, 4), array / 4), 23, 0.5);
    EXPECT_NEAR(transfer_us(members(16, 1), array), 46, 1);
    EXPECT_NEAR(transfer_us(members(4, 16), array / 16), 5.8, 0.1);
}

Network network_of(const char* device, const plan::Cluster& cluster) {
    const Profile profile =
        load_profile(std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/" + device + ".json");
    return Network(cluster, parse_collectives(profile.collectives_json, profile.path));
}

// jax.lax.ppermute on v5p-8 and v6e-8, by the slope over repeated ones: 1 to 16 KiB, 1 MiB and
// 64 MiB of each device (marin-community/marin, issue 6736).
TEST(Torus, SendsAsTimed) {
    struct Case {
        const char* device;
        double bandwidth_GBps;
        Axes axes;
        double small_us, mebibyte_us, large_us;
    };
    for (const Case& of : {Case{"tpu-v5p", 540, rows({2, 2, 1}), 5.0, 16.94, 781.98},
                           Case{"tpu-v6e", 360, rows({2, 4}), 5.75, 17.45, 776.34}}) {
        plan::Cluster cluster = torus_cluster(1, of.axes);
        cluster.intra_node.bandwidth_GBps = of.bandwidth_GBps;
        const Network network = network_of(of.device, cluster);
        const auto us = [&](std::int64_t bytes) {
            return network.point_to_point(bytes, hop_between(0, 1, cluster)).seconds * 1e6;
        };
        EXPECT_NEAR(us(4 << 10) / of.small_us, 1, 0.15) << of.device;
        EXPECT_NEAR(us(1 << 20) / of.mebibyte_us, 1, 0.1) << of.device;
        EXPECT_NEAR(us(64 << 20) / of.large_us, 1, 0.1) << of.device;
    }
}

// Gatherings that were timed: on a row of four of TPU v5e 8 MiB of each chip in 680 µs, on a ring
// of 16 at 95 % of the links' rate from 10 MB on (How To Scale Your Model, part 3); on 2 × 2 of
// TPU7x, what both devices of a chip get from the other three, in GB/s (AI-Hypercomputer/
// accelerator-microbenchmarks@63b035b, Ironwood/guides/collectives/all_gather.md).
TEST(Torus, GathersAsTimed) {
    const auto seconds = [&](const char* device, double bandwidth_GBps, const Axes& axes,
                             const std::vector<std::int64_t>& group, double bytes) {
        plan::Cluster cluster = torus_cluster(1, axes);
        cluster.intra_node.bandwidth_GBps = bandwidth_GBps;
        return network_of(device, cluster)
            .collective(OpKind::all_gather, static_cast<std::int64_t>(bytes),
                        shapes_of({group}, cluster).front())
            .seconds;
    };
    EXPECT_NEAR(seconds("tpu-v5e", 180, rows({8, 4}), members(4, 8), 4 << 23) / 680e-6, 1, 0.1);
    const double ring = seconds("tpu-v5e", 180, {{8, false}, {16, true}}, members(16, 8), 100e6);
    EXPECT_NEAR(100e6 * 15 / 16 / ring / 90e9, 0.95, 0.1);
    // A chip with its six links of 100 GB/s as one device. What a start takes lies between the two
    // kinds of chips, so that the smallest is 16 % faster here.
    const Axes plane = {{2, false}, {2, false}, {1, false}};
    for (const auto& [gathered, GBps] :
         {std::pair{1.572864e6, 71.8}, std::pair{6.291456e6, 129.2}, std::pair{25.165824e6, 161.9},
          std::pair{100.663296e6, 174.8}, std::pair{402.653184e6, 178.8}}) {
        const double whole = gathered * 4 / 3;  // with a chip's own share
        EXPECT_NEAR(
            gathered / seconds("tpu-v7x-die", 600, plane, members(4, 1), whole) / 1e9 / GBps, 1,
            0.2)
            << gathered;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
