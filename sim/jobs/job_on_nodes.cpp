#include "sim/jobs/job_on_nodes.hpp"

#include <algorithm>
#include <exception>

#include "plan/check.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "sim/engine/uneven.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {
namespace {

// A node's number among these; -1: it is not.
std::int64_t number_among(const NodeList& nodes, std::int64_t node) {
    const auto place = std::lower_bound(nodes.begin(), nodes.end(), node);
    return place == nodes.end() || *place != node ? -1 : place - nodes.begin();
}

// A device's number among theirs, likewise.
std::int64_t device_among(const NodeList& nodes, std::int64_t device, std::int64_t per_node) {
    const std::int64_t node = number_among(nodes, device / per_node);
    return node < 0 ? -1 : node * per_node + device % per_node;
}

// What is slow of these nodes.
void keep_slow(const plan::Cluster& shared, const NodeList& nodes, plan::Cluster& cluster) {
    const std::int64_t per_node = shared.devices_per_node;
    cluster.slow_devices.clear();
    cluster.slow_nodes.clear();
    cluster.slow_links.clear();
    for (plan::SlowDevice slow : shared.slow_devices)
        if ((slow.device = device_among(nodes, slow.device, per_node)) >= 0)
            cluster.slow_devices.push_back(slow);
    for (plan::SlowNode slow : shared.slow_nodes)
        if ((slow.node = number_among(nodes, slow.node)) >= 0) cluster.slow_nodes.push_back(slow);
    for (plan::SlowLink slow : shared.slow_links) {
        std::int64_t& named = slow.device < 0 ? slow.node : slow.device;
        named = slow.device < 0 ? number_among(nodes, named) : device_among(nodes, named, per_node);
        if (named >= 0) cluster.slow_links.push_back(slow);
    }
    cluster.all_slow_factor = shared.all_slow_factor;
    cluster.jitter = shared.jitter;
}

Profile of_kinds(const Profile& all, const std::vector<std::size_t>& kinds) {
    const auto one = [&](std::size_t kind) {
        Profile profile = all.of_kind(kind);
        profile.others.clear();
        return profile;
    };
    Profile profile = one(kinds.front());
    for (std::size_t k = 1; k < kinds.size(); ++k)
        profile.others.push_back(one(kinds[k]));
    return profile;
}

}  // namespace

std::vector<std::size_t> kinds_of_nodes(const plan::Cluster& shared, const NodeList& nodes) {
    std::vector<std::size_t> kinds;
    for (const std::int64_t node : nodes) {
        const std::size_t kind = shared.kind_of_device(node * shared.devices_per_node);
        if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
    }
    return kinds;
}

plan::Cluster cluster_of_nodes(const plan::Cluster& shared, const NodeList& nodes) {
    ORRERY_CHECK(!nodes.empty() && !shared.stragglers.any(), "nodes of a cluster that is drawn");
    const std::vector<std::size_t> kinds = kinds_of_nodes(shared, nodes);
    const auto of_kind = [&](std::size_t kind) {
        plan::Cluster own = shared.node_kind(kind);
        own.other_nodes.clear();
        own.nodes = std::count_if(nodes.begin(), nodes.end(), [&](std::int64_t node) {
            return shared.kind_of_device(node * shared.devices_per_node) == kind;
        });
        return own;
    };
    plan::Cluster cluster = of_kind(kinds.front());
    for (std::size_t k = 1; k < kinds.size(); ++k)
        cluster.other_nodes.push_back(of_kind(kinds[k]));
    keep_slow(shared, nodes, cluster);
    return cluster;
}

JobOnNodes::JobOnNodes(const plan::Cluster& shared, const Job& job, const NodeList& nodes)
    : job_(job) {
    if (!nodes_differ(shared) && shared.even()) return;
    scenario_ = job.scenario;
    scenario_->cluster = cluster_of_nodes(shared, nodes);
    if (shared.other_nodes.empty())
        scenario_->cluster.profile_path = job.scenario.cluster.profile_path;
    else
        profile_ = of_kinds(job.profile, kinds_of_nodes(shared, nodes));
}

UsableKinds usable_kinds(const plan::Cluster& shared, const Job& job) {
    std::vector<std::size_t> candidates = job.kinds;
    for (std::size_t kind = 0; job.kinds.empty() && kind < shared.node_kinds(); ++kind)
        candidates.push_back(kind);
    UsableKinds kinds;
    std::exception_ptr first;
    for (const std::size_t kind : candidates) {
        plan::Scenario scenario = job.scenario;
        scenario.cluster = shared.made_even().all_of_kind(kind);
        scenario.cluster.nodes = job.nodes();
        const Profile profile = of_kinds(job.profile, {kind});
        try {
            build_machine(job.plan, scenario, profile, false);
            kinds.computing.push_back(kind);
            if (predict_memory(job.plan, scenario, profile).verdict != Verdict::exceeds)
                kinds.holding.push_back(kind);
        } catch (const plan::ScenarioError&) {
            if (!first) first = std::current_exception();
        } catch (const ProfileError&) {
            if (!first) first = std::current_exception();
        }
    }
    if (kinds.computing.empty()) std::rethrow_exception(first);
    return kinds;
}

bool nodes_differ(const plan::Cluster& shared) {
    const plan::Jitter& jitter = shared.jitter;
    return !shared.other_nodes.empty() || !shared.slow_devices.empty() ||
           !shared.slow_nodes.empty() || !shared.slow_links.empty() ||
           !shared.stragglers.slow.empty() ||
           (jitter.any() && jitter.per == plan::JitterPer::device);
}

std::vector<double> slowness_of_nodes(const plan::Cluster& shared) {
    const auto count = static_cast<std::size_t>(shared.all_nodes());
    std::vector<double> slowness(count, 1), links(count, 1);
    for (std::size_t node = 0; node < count; ++node)
        for (std::int64_t d = 0; d < shared.devices_per_node; ++d) {
            const std::int64_t device =
                static_cast<std::int64_t>(node) * shared.devices_per_node + d;
            const double factor = Uneven(shared, device).lasting() / shared.all_slow_factor;
            slowness[node] = d == 0 ? factor : std::max(slowness[node], factor);
        }
    for (const plan::SlowLink& slow : shared.slow_links) {
        const std::int64_t node =
            slow.device < 0 ? slow.node : slow.device / shared.devices_per_node;
        double& of_node = links[static_cast<std::size_t>(node)];
        of_node = std::max(of_node, slow.factor);
    }
    for (std::size_t node = 0; node < count; ++node)
        slowness[node] *= links[node];
    return slowness;
}

}  // namespace orrery::sim
