// Where the traffic of jobs meets: the links above the nodes that several of them pass, the ranks
// that these tell apart, and the paths that the flows of a folded run take over them.
//
// A link is left out where the jobs that pass it can never ask more of it together than it carries:
// a job's part is at most what its nodes below can send. So on a fabric of full bisection nothing
// is shared, and a job is simulated as alone.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/engine/fold.hpp"
#include "sim/engine/shared_links.hpp"
#include "sim/jobs/job.hpp"
#include "sim/machine.hpp"
#include "sim/network/fabric_links.hpp"

namespace orrery::sim {

// What one job puts on which links, group by group and message by message.
class JobTraffic {
  public:
    // `plan` must outlive it. `cluster`: the shared one.
    JobTraffic(const plan::Plan& plan, const plan::Cluster& cluster, const NodeList& nodes);

    const std::vector<std::int64_t>& devices() const { return devices_; }  // by rank
    // Links that it passes, ascending, with the most that it can send there, in rates of a node.
    const std::map<FabricLink, double>& links() const { return links_; }

  private:
    friend class JobLinks;
    // All groups of a kind that communicate in a pattern.
    struct Meeting {
        plan::GroupKind kind = plan::GroupKind::none;
        Pattern pattern = Pattern::ring;
        std::vector<std::int32_t> group_of;        // by rank
        std::vector<std::vector<LinkLoad>> loads;  // by group
    };
    // Messages from each rank of a pipeline rank to its peer, by pipeline ranks of both.
    using Messages = std::map<std::pair<std::int64_t, std::int64_t>,
                              std::vector<std::vector<LinkLoad>>>;  // by rank of the sender

    void add_meetings(const plan::Plan& plan, const plan::Cluster& cluster);
    void add_messages(const plan::Plan& plan, const plan::Cluster& cluster);
    void pass(const std::vector<LinkLoad>& loads, const plan::Cluster& cluster,
              const NodeList& nodes);

    const plan::Plan& plan_;
    std::vector<std::int64_t> devices_;
    std::vector<Meeting> meetings_;
    Messages messages_;
    std::map<FabricLink, double> links_;
};

class JobLinks {
  public:
    enum class Keep { shared, all };  // links that jobs share and may fill, or every one passed
    // `node_kBps`: what a node can send, by job (EngineInput::node_network_kBps). What collectives
    // reach of a line's rate is of the device; a link carries what those of its jobs do that reach
    // most.
    JobLinks(const std::vector<JobTraffic>& traffic, const plan::Cluster& cluster,
             const std::vector<std::int64_t>& node_kBps, Keep keep = Keep::shared);

    struct SharedLink {
        FabricLink link;
        std::int64_t kBps = 0;
        std::vector<std::int32_t> jobs;  // that pass it
    };
    const std::vector<SharedLink>& links() const { return links_; }  // ascending
    std::vector<std::int64_t> capacities() const;

    // Of the ranks of a job: ranks whose groups and messages pass these links alike have one. By
    // number of the link.
    std::vector<std::int64_t> colours(const JobTraffic& of, const std::vector<bool>& these) const;

    // Gives what the machine's tracks take of the network its paths over `shared`. The uses that
    // the tracks then point to are put into `uses`.
    void lay_paths(const JobTraffic& of, Machine& machine, SharedLinks& shared,
                   std::vector<std::vector<NetworkUse>>& uses) const;

  private:
    using Path = std::vector<SharedLinks::Passage>;
    Path shared_part(const std::vector<LinkLoad>& loads) const;
    Path part_of(const std::vector<LinkLoad>& loads, const std::vector<bool>& these) const;

    std::vector<SharedLink> links_;
    std::map<FabricLink, std::int32_t> numbers_;
};

}  // namespace orrery::sim
