// A job on the nodes that it got of a shared cluster: a scenario as simulate takes it.
//
// Its cluster is made of these nodes in their order: of their kinds, with what of them is slow.
// What is slow by chance is drawn for the shared cluster, so that it stays where it is, whoever has
// the node.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/jobs/job.hpp"

namespace orrery::sim {

// Of a cluster that is drawn (sim/engine/drawn_cluster.hpp). `nodes`: ascending, at least one.
plan::Cluster cluster_of_nodes(const plan::Cluster& shared, const NodeList& nodes);

// Kinds of a cluster's nodes that are among these, ascending.
std::vector<std::size_t> kinds_of_nodes(const plan::Cluster& shared, const NodeList& nodes);

class JobOnNodes {
  public:
    // Both must outlive it.
    JobOnNodes(const plan::Cluster& shared, const Job& job, const NodeList& nodes);

    const plan::Scenario& scenario() const { return scenario_ ? *scenario_ : job_.scenario; }
    const Profile& profile() const { return profile_ ? *profile_ : job_.profile; }

  private:
    const Job& job_;
    std::optional<plan::Scenario> scenario_;  // where it is not the job's own
    std::optional<Profile> profile_;
};

// Of a mixed cluster, kinds of nodes among those that the job fits, ascending: whose device
// computes what it asks for, and of these the ones whose memory holds it, too. Throws what
// build_machine says of the first where none computes it.
struct UsableKinds {
    std::vector<std::size_t> computing;
    std::vector<std::size_t> holding;
};
UsableKinds usable_kinds(const plan::Cluster& shared, const Job& job);

// Whether nodes differ, so that it counts which a job has, wherever they hang.
bool nodes_differ(const plan::Cluster& shared);

// By node, of a cluster that is drawn: the longest that a kernel or a message takes there, as a
// multiple of what others of its kind take.
std::vector<double> slowness_of_nodes(const plan::Cluster& shared);

}  // namespace orrery::sim
