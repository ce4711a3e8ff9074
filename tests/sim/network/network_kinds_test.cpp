// Networks between nodes differ by kind: sim/network/network_kinds.hpp.
#include "sim/network/network_kinds.hpp"

#include <gtest/gtest.h>

#include <set>

#include "plan/scenario/spellings.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/collective_cost.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

plan::Cluster cluster_of(plan::InterNodeKind kind) {
    plan::Cluster cluster;
    cluster.nodes = 16;
    cluster.devices_per_node = 8;
    cluster.intra_node = {plan::IntraNodeKind::nvswitch, 300, 2};
    cluster.inter_node = {kind, 8, 200, 5, 1};
    return cluster;
}

CollectiveTable table() {
    const Profile profile =
        load_profile(std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/a100-80gb-sxm.json");
    return parse_collectives(profile.collectives_json, profile.path);
}

// A gigabyte over 16 nodes: what takes time is bytes, of which a kind carries its share.
TEST(NetworkKinds, CarryDifferentSharesOfOneLineRate) {
    const GroupShape shape{128, 16, 8, 1};
    const auto price = [&](plan::InterNodeKind kind) {
        return Network(cluster_of(kind), table())
            .collective(plan::OpKind::all_reduce, std::int64_t{1} << 30, shape);
    };
    const Price infiniband = price(plan::InterNodeKind::infiniband);
    std::set<double> seen = {infiniband.seconds};
    for (const plan::InterNodeKind kind :
         {plan::InterNodeKind::ethernet, plan::InterNodeKind::roce, plan::InterNodeKind::efa,
          plan::InterNodeKind::slingshot, plan::InterNodeKind::omni_path}) {
        const Price other = price(kind);
        EXPECT_GT(other.seconds, infiniband.seconds) << plan::spelling(kind);
        EXPECT_LE(other.seconds / infiniband.seconds,
                  1.001 * network_share(plan::InterNodeKind::infiniband).share /
                      network_share(kind).share)
            << plan::spelling(kind);
        EXPECT_GE(other.relative_sd, network_share(kind).relative_sd);
        seen.insert(other.seconds);
    }
    EXPECT_EQ(seen.size(), 6U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
