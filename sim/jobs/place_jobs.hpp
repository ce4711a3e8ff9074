// Nodes for several jobs, one after another, where not every job fits every node: none takes what
// another needs that has no nodes yet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/jobs/placement.hpp"

namespace orrery::sim {

// By node, of a cluster.
using NodeSet = std::vector<bool>;

class JobPlacing {
  public:
    // There are enough nodes of each kind (plan/scenario/jobs/share_nodes.hpp). Both must outlive
    // it.
    JobPlacing(const plan::Cluster& cluster, const std::vector<Job>& jobs);

    void take(std::size_t job, const NodeList& nodes);  // that nobody has
    // By the policy among the nodes that it fits; where that leaves too few for others, as many of
    // each kind as leave them enough, by the policy among each.
    NodeList place(std::size_t job, PlacementPolicy policy, std::uint64_t seed);
    // The same among `these` alone; nothing where they, or what is then left, are too few.
    std::optional<NodeList> place_among(const NodeSet& these, std::size_t job,
                                        PlacementPolicy policy, std::uint64_t seed);

    // That a job fits, taken or not.
    const NodeSet& fitting(std::size_t job) const { return fitting_[job]; }
    bool is_free(std::int64_t node) const { return free_.has(node); }

  private:
    std::optional<NodeList> look(const NodeSet& these, std::size_t job, std::int64_t nodes,
                                 PlacementPolicy policy, std::uint64_t seed) const;
    std::vector<std::int64_t> free_by_kind() const;
    bool leaves_enough(std::size_t job, const NodeList& nodes) const;

    const plan::Cluster& cluster_;
    const std::vector<Job>& jobs_;
    FreeNodes free_;
    std::vector<NodeSet> fitting_;
    std::vector<bool> placed_;
};

// Jobs that together fit too few nodes beside those that have theirs (`given`, else empty),
// ascending; none: there are nodes for all.
std::vector<std::size_t> jobs_without_nodes(const plan::Cluster& cluster,
                                            const std::vector<Job>& jobs,
                                            const std::vector<NodeList>& given);

// Whether all of the nodes are of kinds that the job fits.
bool fits(const plan::Cluster& cluster, const Job& job, const NodeList& nodes);

}  // namespace orrery::sim
