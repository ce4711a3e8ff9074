// Which rings fit into a hybrid cube mesh, and what collectives over them take.
#include "sim/network/cube_mesh.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "sim/cost/profile.hpp"
#include "sim/network/collective_cost.hpp"
#include "tests/sim/network/network_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

std::vector<int> positions_of(unsigned subset) {
    std::vector<int> positions;
    for (int d = 0; d < 8; ++d)
        if ((subset >> d & 1U) != 0) positions.push_back(d);
    return positions;
}

std::vector<std::int64_t> first(std::int64_t count) {
    std::vector<std::int64_t> devices(static_cast<std::size_t>(count));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
}

// Six links of 25 GB/s out of each device.
plan::Cluster mesh_cluster(std::int64_t nodes) {
    plan::Cluster cluster = plain_cluster(nodes);
    cluster.intra_node = {plan::IntraNodeKind::hybrid_cube_mesh, 150, 2, 10};
    return cluster;
}

GroupShape shape_in(const plan::Cluster& cluster, const std::vector<std::int64_t>& devices) {
    return shapes_of({devices}, cluster).front();
}

TEST(CubeMesh, HasSixLinksOutOfEachDevice) {
    for (int a = 0; a < 8; ++a) {
        int all = 0;
        for (int b = 0; b < 8; ++b) {
            if (a == b) continue;
            EXPECT_EQ(cube_mesh_links(a, b), cube_mesh_links(b, a));
            // Within a quad all are joined; between them each with one partner.
            EXPECT_EQ(cube_mesh_links(a, b) > 0, a / 4 == b / 4 || a % 4 == b % 4);
            all += cube_mesh_links(a, b);
        }
        EXPECT_EQ(all, kCubeMeshLinks);
    }
}

// "Three interwoven rings of single links" (NVIDIA), either way round: all 48 links.
TEST(CubeMesh, OfEightDevicesUsesEveryLink) {
    EXPECT_EQ(mesh_place({0, 1, 2, 3, 4, 5, 6, 7}).rings, 6);
}

TEST(CubeMesh, JoinsPairsByTwoLinksOrOneOrNone) {
    EXPECT_EQ(mesh_place({0, 3}).rings, 2);
    EXPECT_EQ(mesh_place({0, 1}).rings, 1);
    EXPECT_EQ(mesh_place({0, 5}).rings, 0);
    EXPECT_EQ(mesh_place({0, 5}).far_pairs, 1);
    // A message has every link one way, and so has its answer.
    EXPECT_EQ(mesh_place({0, 1}).chains, 2);
}

TEST(CubeMesh, OfFourDevicesHasMostRingsInAQuad) {
    EXPECT_EQ(mesh_place({0, 1, 2, 3}).rings, 4);
    EXPECT_EQ(mesh_place({4, 5, 6, 7}).rings, 4);
    // Data groups beside tensor groups of two: a side of the cube, one link each hop.
    EXPECT_EQ(mesh_place({0, 2, 4, 6}).rings, 2);
    EXPECT_EQ(mesh_place({1, 3, 5, 7}).rings, 2);
}

// 4 hangs on 0 alone: the ring comes back to it through 0.
TEST(CubeMesh, LetsARingPassThroughAMemberWhereNoneIsDirect) {
    EXPECT_EQ(mesh_place({0, 1, 2, 3, 4}).rings, 2);
}

TEST(CubeMesh, NeverHasMoreRingsThanLinksOutOfAMember) {
    for (unsigned subset = 0; subset < 256; ++subset) {
        const std::vector<int> members = positions_of(subset);
        if (members.size() < 2) continue;
        const MeshPlace place = mesh_place(members);
        int narrowest = kCubeMeshLinks, all = 0;
        for (const int a : members) {
            int own = 0;
            for (const int b : members)
                if (a != b) own += cube_mesh_links(a, b);
            narrowest = std::min(narrowest, own);
            all += own;
        }
        EXPECT_LE(place.rings, narrowest) << subset;
        EXPECT_LE(place.chains * (static_cast<int>(members.size()) - 1), all) << subset;
        EXPECT_GE(place.chains, place.rings) << subset;
    }
}

TEST(CubeMesh, CarriesARingOnEachOfItsLanes) {
    const Network network(mesh_cluster(1), plain_table());
    const auto seconds = [&](const std::vector<std::int64_t>& devices) {
        return network
            .collective(OpKind::all_gather, 100'000'000, shape_in(mesh_cluster(1), devices))
            .seconds;
    };
    // 2 + 3 hops of 1 µs; 75 MB over four links of 25 GB/s, over two, over the hosts at 10 GB/s.
    EXPECT_NEAR(seconds({0, 1, 2, 3}), 755e-6, 1e-15);
    EXPECT_NEAR(seconds({0, 2, 4, 6}), 1505e-6, 1e-15);
    EXPECT_NEAR(seconds({0, 5, 6, 3}), 7505e-6, 1e-15);  // no member but 3 and 0, 5 and 6 is joined
}

TEST(CubeMesh, SharesTheWayOverTheHosts) {
    const Network network(mesh_cluster(1), plain_table());
    // Of four pairs two are joined by no link.
    const auto shapes = shapes_of({{0, 5}, {1, 4}, {2, 3}, {6, 7}}, mesh_cluster(1));
    const auto seconds = [&](const GroupShape& shape) {
        return network.collective(OpKind::all_gather, 100'000'000, shape).seconds;
    };
    EXPECT_NEAR(seconds(shapes[0]), 3e-6 + 50e6 / 5e9, 1e-15);
    EXPECT_NEAR(seconds(shapes[2]), 3e-6 + 50e6 / 50e9, 1e-15);
}

TEST(CubeMesh, CarriesMessagesOverTheLinksOfTheirPair) {
    const plan::Cluster cluster = mesh_cluster(1);
    const Network network(cluster, plain_table());
    const auto seconds = [&](std::int64_t from, std::int64_t to, int flows) {
        Hop hop = hop_between(from, to, cluster);
        hop.flows = flows;
        return network.point_to_point(50'000'000, hop).seconds;
    };
    EXPECT_NEAR(seconds(0, 4, 1), 3e-6 + 50e6 / 50e9, 1e-15);
    EXPECT_NEAR(seconds(0, 1, 1), 3e-6 + 50e6 / 25e9, 1e-15);
    EXPECT_NEAR(seconds(3, 4, 1), 3e-6 + 50e6 / 10e9, 1e-15);
    EXPECT_NEAR(seconds(3, 4, 2), 3e-6 + 50e6 / 5e9, 1e-15);
}

// Twelve pairs of the eight are joined by no link, and share 10 GB/s either way; in a quad the
// pairs with one link are the slowest.
TEST(CubeMesh, ExchangesAsFastAsItsSlowestPair) {
    const plan::Cluster cluster = mesh_cluster(1);
    const Network network(cluster, plain_table());
    const auto seconds = [&](std::int64_t ranks) {
        return network.collective(OpKind::all_to_all, 80'000'000, shape_in(cluster, first(ranks)))
            .seconds;
    };
    EXPECT_NEAR(seconds(8), 9e-6 + 10e6 * 12 / 10e9, 1e-15);
    EXPECT_NEAR(seconds(4), 5e-6 + 20e6 / 25e9, 1e-15);
}

// NCCL over the first 2 to 8 V100 of a node, all-reduces of 1 GiB in microseconds (VIA-Research/
// vTrain). Five devices have no ring of direct links: what the detour through a member costs beside
// its links is not modelled.
TEST(CubeMesh, AllReducesAsPublished) {
    struct Timing {
        int ranks;
        double measured_us;
        double tolerance;
    };
    const Profile profile =
        load_profile(std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/v100-32gb-sxm.json");
    const plan::Cluster cluster = mesh_cluster(1);
    const Network network(cluster, parse_collectives(profile.collectives_json, profile.path));
    for (const Timing& timing :
         {Timing{2, 47610, 0.02}, Timing{3, 31714, 0.02}, Timing{4, 18869, 0.06},
          Timing{5, 46223, 0.18}, Timing{6, 39121, 0.03}, Timing{7, 21156, 0.04},
          Timing{8, 13969, 0.02}}) {
        const Price price = network.collective(OpKind::all_reduce, std::int64_t{1} << 30,
                                               shape_in(cluster, first(timing.ranks)));
        EXPECT_NEAR(price.seconds / (timing.measured_us * 1e-6), 1, timing.tolerance)
            << timing.ranks;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
