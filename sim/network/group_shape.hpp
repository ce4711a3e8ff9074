// Where a group lies: what of its placement its cost depends on. All in whole numbers, so that
// groups that lie alike compare equal, whatever the machine.
//
// Sibling groups, those of one kind, communicate at the same time. On each link that several of
// them use they are counted, and get equal shares. A group's traffic between its nodes is taken as
// that of a ring in rank order: it leaves each node once, and each switch's set of nodes once,
// however many of its nodes lie below. On a rail fabric it travels on the rails that the members of
// neighbouring nodes share (NCCL's rings leave and enter nodes through the same adapter); where
// these share none it crosses rails.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "sim/network/cube_mesh.hpp"
#include "sim/network/torus.hpp"

namespace orrery::sim {

// What passes the links above one switch of a fabric's level, where most does among those that the
// group uses; nothing where the group stays below.
struct LevelUse {
    int groups = 0;   // groups that leave; above the leaves of a rail fabric those on one rail
    int senders = 0;  // members, of these groups, of the nodes below
    int inside = 0;   // members of this group below, of the switch with most
    int climbs = 0;   // hops of the group's ring, of one per node, that pass the links

    bool operator==(const LevelUse&) const = default;
};

// Of a cluster whose nodes are of several kinds: those of a group's members, a bit each.
using NodeKinds = std::uint32_t;
inline constexpr NodeKinds kOwnNodes = 1;
static_assert(plan::kMostNodeKinds <= 32);

// Links that have less than their bandwidth, among those of a group's or a message's members on
// nodes of one kind: what the slowest lacks, as a divisor. Each step of a ring or a tree ends with
// its slowest link, and NCCL's channels carry equal parts, each over one adapter.
struct SlowLinks {
    std::size_t kind = 0;  // of node
    double inside = 1;     // between devices of a node
    double network = 1;    // of the adapters that members send through

    bool operator==(const SlowLinks&) const = default;
};

struct GroupShape {
    int ranks = 1;
    int nodes = 1;
    int ranks_per_node = 1;     // the largest number of members in one node
    int siblings_per_node = 1;  // groups of the same kind with members in such a node that span
                                // nodes and communicate at the same time, this one included
    int rails = 1;              // of a rail fabric: so many that it travels on
    bool crosses_rails = false;
    MeshPlace mesh{};  // of a hybrid cube mesh: in the node that has least for it
    TorusPlace torus{};
    std::array<LevelUse, plan::kMostFabricLevels> fabric{};
    NodeKinds kinds = kOwnNodes;
    std::vector<SlowLinks> slow{};  // by kind; kinds without are as the cluster says

    bool operator==(const GroupShape&) const = default;
};

// Appends what tells shapes apart.
void append_key(const GroupShape& shape, std::vector<std::int64_t>& key);

// `member_devices` must not be empty. Devices fill nodes in order. Of a uniform fabric.
GroupShape shape_of(const std::vector<std::int64_t>& member_devices, std::int64_t devices_per_node,
                    int siblings_per_node = 1);

// Where a cluster's nodes hang on a fabric that has others besides: by node its number there,
// ascending.
using FabricNodes = std::vector<std::int64_t>;

// The shapes of all groups of one kind, with their siblings counted: the most that use the network
// of one of a group's nodes. 1 for a group within one node. One pass over all members. `places`:
// where the nodes hang; null: they are the fabric's first.
std::vector<GroupShape> shapes_of(const std::vector<std::vector<std::int64_t>>& groups,
                                  const plan::Cluster& cluster,
                                  const FabricNodes* places = nullptr);

// The way of one message between two devices.
struct Hop {
    bool same_node = true;
    int flows = 1;  // that leave the node at the same time, this one included; of two devices of a
                    // cube mesh that no link joins, those that go over the hosts
    int links = 0;  // of a cube mesh: that join the two
    TorusHop torus{};
    int levels = 0;  // of the fabric whose upward links it passes
    bool crosses_rails = false;
    NodeKinds kinds = kOwnNodes;  // of its two ends
    std::vector<SlowLinks> slow{};

    bool operator==(const Hop&) const = default;
};

void append_key(const Hop& hop, std::vector<std::int64_t>& key);

// Between two different devices; `flows` is left at 1. `places` as of shapes_of.
Hop hop_between(std::int64_t from_device, std::int64_t to_device, const plan::Cluster& cluster,
                const FabricNodes* places = nullptr);

// Of devices and of nodes.
std::int64_t rails_of(const plan::Cluster& cluster);  // rails that a node is on
std::int64_t rail_of(std::int64_t device, const plan::Cluster& cluster);

}  // namespace orrery::sim
