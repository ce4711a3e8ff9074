// Folding: ranks that do the same thing at the same time need one simulation. Classes of ranks are
// found by refinement: ranks start together when they share a program and run on devices that are
// equally fast; they are parted by where
// their groups lie (nodes spanned, members per node, siblings on the NICs) and where their pipeline
// peers are, and then by the classes of those they meet, until nothing changes. The first rank of a
// class stands for it; a group then ties the classes that meet in it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/network/collective_cost.hpp"

namespace orrery::sim {

struct Classes {
    struct Member {
        plan::Rank rank = 0;          // the representative
        std::int64_t represents = 1;  // ranks of the class
        // Shape of its group of each kind, for pricing; and a number that members share whose
        // groups are all of the same shapes.
        std::array<GroupShape, plan::kGroupKinds> shapes{};
        std::int32_t alike = 0;
        // Index into groups, −1 where it would meet no other class.
        std::array<std::int32_t, plan::kGroupKinds> groups{};
        std::vector<std::int32_t> pipeline_peers;  // class by pipeline rank
        std::vector<Hop> hops;                     // by pipeline rank, to that peer
    };
    std::vector<Member> members;                    // ascending rank
    std::vector<std::vector<std::int32_t>> groups;  // classes that meet
    std::vector<std::int32_t> class_of;             // by rank
};

// Where a job among others lies: its cluster is so many of the nodes of a larger one.
struct RankPlaces {
    FabricNodes nodes;  // by node of its own: which of the larger cluster's
    // By rank: ranks of different colours are not alike, whatever else they have in common.
    std::vector<std::int64_t> colours;
};

// unfolded: each rank is its own class; so it is where jitter makes every rank another. experts:
// ranks meet in the groups of experts, too.
Classes fold_ranks(const plan::Mesh& mesh, const plan::Cluster& cluster, bool unfolded,
                   bool experts = false, const RankPlaces* places = nullptr);

}  // namespace orrery::sim
