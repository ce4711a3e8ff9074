// Which nodes jobs get on a shared cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/scenario/jobs/read_jobs.hpp"
#include "sim/jobs/job.hpp"

namespace orrery::sim {

// compact: below as few switches as possible: the lowest switch that has room, of several the one
// that it fills most; below it those with most room first.
// scattered: from every leaf in turn, those with most room first.
// random: any, drawn.
// rail_aligned: whole pipeline stages below one leaf where one has room for a stage, so that groups
// of like places in their nodes stay on their rail; only what stages send each other leaves it.
using plan::PlacementPolicy;

// The nodes of a cluster that nobody has.
class FreeNodes {
  public:
    explicit FreeNodes(const plan::Cluster& cluster);

    std::int64_t count() const;
    bool has(std::int64_t node) const { return free_[static_cast<std::size_t>(node)]; }
    void take(const NodeList& nodes);  // must be free
    void give_back(const NodeList& nodes);

    // Takes that many; nothing where there are fewer. `stage_nodes`: of a pipeline stage, for
    // rail_aligned; 0: stages do not fill nodes.
    std::optional<NodeList> place(PlacementPolicy policy, std::int64_t nodes,
                                  std::int64_t stage_nodes, std::uint64_t seed);

  private:
    NodeList compact(std::int64_t nodes) const;
    NodeList scattered(std::int64_t nodes) const;
    NodeList random(std::int64_t nodes, std::uint64_t seed) const;
    NodeList rail_aligned(std::int64_t nodes, std::int64_t stage_nodes) const;
    NodeList free_below(std::size_t level, std::int64_t unit) const;
    void take_compactly(std::size_t level, const std::vector<std::int64_t>& units,
                        std::int64_t nodes, NodeList& taken) const;

    std::vector<bool> free_;
    std::vector<std::int64_t> levels_;  // nodes below a switch, from the leaves up; all at the end
};

}  // namespace orrery::sim
