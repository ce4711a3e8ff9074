// A torus: devices on one to three axes, each with a link to its neighbour on either side, and
// where an axis wraps from its last device to its first (Google's TPU, by their inter-chip
// interconnect). Half of what goes on an axis travels one way and half the other, on all axes that
// a group lies on at once; what passes a device on its way takes the links there from others.
//
// Gathering, scattering and reducing of S bytes by a group of N: each link out of a device carries
// a share of the (N − 1)/N·S that the device sends. A ring round an axis has two of them, a row of
// devices one, since its ends have one neighbour; groups that lie through each other on an axis
// share its links. A group whose devices are no box (a place on one axis for each place on another)
// goes round in the order of its ranks.
// Exchanges are as fast as the narrowest cut: on a ring of n that is n/8·S a link, in a row n/4·S.
// Source: How To Scale Your Model (jax-ml.github.io/scaling-book), parts 2 and 3; Jouppi et al.
// 2023 (arXiv 2304.01433) for wrapping; Sack, Gropp 2015, "Collective algorithms for multiported
// torus networks" (ACM TOPC 1), for rings on several axes at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// What a group finds on one axis.
struct AxisUse {
    int members = 1;  // places at which it has devices
    int links = 0;    // from one of these places to the next, the most
    int sharers = 1;  // groups that one of its links serves, the most, this one included
    bool ring = false;

    bool operator==(const AxisUse&) const = default;
};

struct TorusPlace {
    std::array<AxisUse, plan::kMostTorusAxes> axes{};
    bool box = true;
    int next_links = 0;   // from a member to the next in the group's order, the most
    int next_flows = 1;   // messages from each member to the next that one link carries, the most
    int round_flows = 1;  // the same where each goes to the one before, too

    bool operator==(const TorusPlace&) const = default;
};

// The way of a message.
struct TorusHop {
    int links = 0;
    int flows = 1;  // on one link, where every device sends as far

    bool operator==(const TorusHop&) const = default;
};

// Positions in the node of each group's members, in the group's order, of the groups that
// communicate at the same time.
std::vector<TorusPlace> torus_places(const std::vector<std::vector<int>>& groups,
                                     const std::vector<plan::TorusAxis>& axes);

// The slower of two, for a group that lies in several nodes.
TorusPlace slower(const TorusPlace& a, const TorusPlace& b);

// Axis after axis, each the shorter way round. Between different positions (checked).
TorusHop torus_hop(int from, int to, const std::vector<plan::TorusAxis>& axes);

// Links out of a device in each direction of each axis.
int torus_links(const std::vector<plan::TorusAxis>& axes);

// How many links a group's gathering has out of each member, all for itself.
double torus_lanes(const TorusPlace& place);

// How many links what one member sends passes until the farthest has it.
int torus_steps(const TorusPlace& place, int ranks);

// What passes the busiest link while every pair of members exchanges S/N, in multiples of S.
double torus_exchange(const TorusPlace& place);

}  // namespace orrery::sim
