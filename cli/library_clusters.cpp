#include "cli/library_clusters.hpp"

#include <cmath>

#include <fmt/format.h>

#include "cli/library.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/scenario/files.hpp"

namespace orrery::cli {
namespace {

constexpr std::int64_t kUsualGpus = 8;

// "clusters/h100-sxm-256.json" is told before one that is called by its owner.
bool is_plain(const LibraryCluster& one) {
    return file_name(one.reference).starts_with(one.cluster.device);
}

bool can_hold(const plan::Cluster& cluster, std::int64_t gpus) {
    return gpus <= cluster.devices_per_node || cluster.inter_node.kind != plan::InterNodeKind::none;
}

// The nearest in size, by ratio.
double distance(const LibraryCluster& one, std::int64_t gpus) {
    return std::fabs(
        std::log(static_cast<double>(one.cluster.devices()) / static_cast<double>(gpus)));
}

}  // namespace

std::vector<LibraryCluster> library_clusters() {
    std::vector<LibraryCluster> all;
    std::string why = "it has none";
    for (const std::string& reference : library_names(LibraryKind::clusters, "")) {
        if (const auto scenario = probe(LibraryKind::clusters, reference, why))
            all.push_back({reference, scenario->cluster});
    }
    if (all.empty())
        throw UsageError(
            fmt::format("no cluster of the library in {} can be read: {}", library_folder(), why));
    return all;
}

const LibraryCluster* nearest_cluster(const std::vector<LibraryCluster>& all,
                                      const std::set<std::string>& devices,
                                      std::optional<std::int64_t> gpus) {
    const std::int64_t wanted = gpus.value_or(kUsualGpus);
    const auto better = [&](const LibraryCluster& one, const LibraryCluster& other) {
        if (is_plain(one) != is_plain(other)) return is_plain(one);
        return distance(one, wanted) < distance(other, wanted);
    };
    const LibraryCluster* best = nullptr;
    for (const LibraryCluster& one : all) {
        if (!devices.contains(one.cluster.device)) continue;
        if (gpus && !can_hold(one.cluster, *gpus)) continue;
        if (best == nullptr || better(one, *best)) best = &one;
    }
    return best;
}

nlohmann::ordered_json cluster_of_size(const LibraryCluster& chosen, const std::string& path,
                                       std::int64_t gpus) {
    if (gpus == chosen.cluster.devices()) return chosen.reference;
    nlohmann::ordered_json sizes;
    const std::int64_t per_node = chosen.cluster.devices_per_node;
    if (gpus < per_node)
        sizes = {{"nodes", 1}, {"devices_per_node", gpus}};
    else if (gpus % per_node == 0)
        sizes = {{"nodes", gpus / per_node}};
    else
        return nullptr;
    std::string why;
    const std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw UsageError(fmt::format("{}: {}", path, why));
    nlohmann::ordered_json object = nlohmann::ordered_json::parse(*text, nullptr, true, true);
    object.update(sizes);
    object["name"] = fmt::format("{} x {}", gpus, chosen.cluster.device);
    return object;
}

}  // namespace orrery::cli
