#include "sim/jobs/place_jobs.hpp"

#include <algorithm>

#include "plan/check.hpp"
#include "plan/scenario/jobs/share_nodes.hpp"
#include "sim/jobs/job_on_nodes.hpp"

namespace orrery::sim {
namespace {

bool fits_kind(const Job& job, std::size_t kind) {
    return job.kinds.empty() ||
           std::find(job.kinds.begin(), job.kinds.end(), kind) != job.kinds.end();
}

std::size_t kind_of(const plan::Cluster& cluster, std::int64_t node) {
    return cluster.kind_of_device(node * cluster.devices_per_node);
}

}  // namespace

bool fits(const plan::Cluster& cluster, const Job& job, const NodeList& nodes) {
    const std::vector<std::size_t> kinds = kinds_of_nodes(cluster, nodes);
    return std::all_of(kinds.begin(), kinds.end(),
                       [&](std::size_t kind) { return fits_kind(job, kind); });
}

std::vector<std::size_t> jobs_without_nodes(const plan::Cluster& cluster,
                                            const std::vector<Job>& jobs,
                                            const std::vector<NodeList>& given) {
    std::vector<std::int64_t> free;
    for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind)
        free.push_back(cluster.node_kind(kind).nodes);
    std::vector<std::size_t> waiting;
    std::vector<plan::NodeDemand> demands;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        for (const std::int64_t node : given[j])
            --free[kind_of(cluster, node)];
        if (!given[j].empty()) continue;
        waiting.push_back(j);
        demands.push_back({jobs[j].nodes(), jobs[j].kinds});
    }
    std::vector<std::size_t> without;
    for (const std::size_t d : plan::share_nodes(demands, free).too_many)
        without.push_back(waiting[d]);
    return without;
}

JobPlacing::JobPlacing(const plan::Cluster& cluster, const std::vector<Job>& jobs)
    : cluster_(cluster), jobs_(jobs), free_(cluster), placed_(jobs.size(), false) {
    for (const Job& job : jobs) {
        NodeSet& nodes = fitting_.emplace_back();
        for (std::int64_t node = 0; node < cluster.all_nodes(); ++node)
            nodes.push_back(fits_kind(job, kind_of(cluster, node)));
    }
}

void JobPlacing::take(std::size_t job, const NodeList& nodes) {
    free_.take(nodes);
    placed_[job] = true;
}

std::optional<NodeList> JobPlacing::look(const NodeSet& these, std::size_t job, std::int64_t nodes,
                                         PlacementPolicy policy, std::uint64_t seed) const {
    FreeNodes among = free_;
    for (std::size_t node = 0; node < these.size(); ++node)
        if (const auto number = static_cast<std::int64_t>(node);
            among.has(number) && !(these[node] && fitting_[job][node]))
            among.take({number});
    return among.place(policy, nodes, plan::stage_nodes(jobs_[job].scenario), seed);
}

std::vector<std::int64_t> JobPlacing::free_by_kind() const {
    std::vector<std::int64_t> free(cluster_.node_kinds(), 0);
    for (std::int64_t node = 0; node < cluster_.all_nodes(); ++node)
        if (free_.has(node)) ++free[kind_of(cluster_, node)];
    return free;
}

// For the other jobs that have no nodes yet, once the job has these.
bool JobPlacing::leaves_enough(std::size_t job, const NodeList& nodes) const {
    if (cluster_.other_nodes.empty()) return true;
    std::vector<std::int64_t> free = free_by_kind();
    for (const std::int64_t node : nodes)
        --free[kind_of(cluster_, node)];
    std::vector<plan::NodeDemand> waiting;
    for (std::size_t j = 0; j < jobs_.size(); ++j)
        if (j != job && !placed_[j]) waiting.push_back({jobs_[j].nodes(), jobs_[j].kinds});
    return plan::share_nodes(waiting, free).too_many.empty();
}

std::optional<NodeList> JobPlacing::place_among(const NodeSet& these, std::size_t job,
                                                PlacementPolicy policy, std::uint64_t seed) {
    std::optional<NodeList> nodes = look(these, job, jobs_[job].nodes(), policy, seed);
    if (!nodes || !leaves_enough(job, *nodes)) return std::nullopt;
    take(job, *nodes);
    return nodes;
}

NodeList JobPlacing::place(std::size_t job, PlacementPolicy policy, std::uint64_t seed) {
    if (std::optional<NodeList> nodes = place_among(fitting_[job], job, policy, seed))
        return *std::move(nodes);
    std::vector<plan::NodeDemand> waiting = {{jobs_[job].nodes(), jobs_[job].kinds}};
    for (std::size_t j = 0; j < jobs_.size(); ++j)
        if (j != job && !placed_[j]) waiting.push_back({jobs_[j].nodes(), jobs_[j].kinds});
    const plan::NodeShares shares = plan::share_nodes(waiting, free_by_kind());
    ORRERY_CHECK(shares.too_many.empty(), "jobs that need more nodes than fit them");
    NodeList all;
    for (std::size_t kind = 0; kind < cluster_.node_kinds(); ++kind) {
        const std::int64_t count = shares.of_kind.front()[kind];
        if (count == 0) continue;
        NodeSet of_kind(fitting_[job].size());
        for (std::size_t node = 0; node < of_kind.size(); ++node)
            of_kind[node] = kind_of(cluster_, static_cast<std::int64_t>(node)) == kind;
        const NodeList nodes = *look(of_kind, job, count, policy, seed);
        all.insert(all.end(), nodes.begin(), nodes.end());
    }
    std::sort(all.begin(), all.end());
    take(job, all);
    return all;
}

}  // namespace orrery::sim
