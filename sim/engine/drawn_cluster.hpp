// From a cluster that says how much of it is slow by chance to one that names what is slow: a
// function of the cluster and its seed, of nothing else, the same on every machine. Whoever
// simulates a step does so on what was drawn, so that what is slow by chance and what is named are
// folded and priced alike.
#pragma once

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// Each device, node, link or node's adapters is slow with the probability of its share, for itself
// and for each entry of the list; factors on the same are multiplied. all_slow_factor is a draw of
// a normal distribution of mean 1, at least 0.1. The result has no stragglers left to draw.
plan::Cluster drawn_cluster(const plan::Cluster& cluster);

// The seeds of draw number `draw`: 0 is the scenario's own.
plan::Cluster with_draw(plan::Cluster cluster, std::int64_t draw);

}  // namespace orrery::sim
