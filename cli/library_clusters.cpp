#include "cli/library_clusters.hpp"

#include <algorithm>
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

// Of so many devices, by halving the longest axis as often as that takes: what slices of pods are.
// None where that does not give so many. Where optical switches join cubes of 4 × 4 × 4 (three
// axes: TPU v4, v5p, TPU7x) slices of whole cubes are tori, too; of two axes (v5e, v6e) one that is
// cut is a row (How To Scale Your Model, part 2, jax-ml.github.io/scaling-book).
std::vector<plan::TorusAxis> slice_of(std::vector<plan::TorusAxis> axes, std::int64_t devices) {
    std::int64_t all = 1;
    for (const plan::TorusAxis& axis : axes)
        all *= axis.devices;
    while (all > devices) {
        const auto longest = std::max_element(
            axes.begin(), axes.end(),
            [](const auto& one, const auto& other) { return one.devices < other.devices; });
        if (longest->devices % 2 != 0) return {};
        longest->devices /= 2;
        longest->wraps = longest->wraps && axes.size() > 2;
        all /= 2;
    }
    if (all != devices) return {};
    const bool cubes = std::all_of(axes.begin(), axes.end(), [](const plan::TorusAxis& axis) {
        return axis.devices % 4 == 0;
    });
    for (plan::TorusAxis& axis : axes)
        axis.wraps = axis.wraps && (cubes || axes.size() < 3);
    return axes;
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
    std::vector<plan::TorusAxis> axes;
    const bool torus = chosen.cluster.intra_node.kind == plan::IntraNodeKind::torus;
    if (torus && gpus < per_node) {
        axes = slice_of(chosen.cluster.intra_node.axes, gpus);
        if (axes.empty()) return nullptr;
    }
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
    if (!axes.empty()) {
        nlohmann::ordered_json& inside = object["intra_node"];
        inside["shape"] = inside["wraparound"] = nlohmann::ordered_json::array();
        for (const plan::TorusAxis& axis : axes) {
            inside["shape"].push_back(axis.devices);
            inside["wraparound"].push_back(axis.wraps);
        }
        if (object.contains("source")) object["source"].erase("intra_node.shape");
        // Adapters are chips' own.
        if (object.contains("inter_node"))
            object["inter_node"]["nics_per_node"] =
                chosen.cluster.inter_node.nics_per_node * gpus / per_node;
    }
    return object;
}

std::pair<std::int64_t, std::int64_t> nearest_sizes(const plan::Cluster& cluster,
                                                    std::int64_t gpus) {
    const std::int64_t per_node = cluster.devices_per_node;
    if (gpus > per_node) return {gpus / per_node * per_node, (gpus / per_node + 1) * per_node};
    std::pair<std::int64_t, std::int64_t> nearest = {1, per_node};
    for (std::int64_t size = 1; size <= per_node; ++size) {
        if (slice_of(cluster.intra_node.axes, size).empty()) continue;
        if (size <= gpus) nearest.first = size;
        if (size >= gpus) return {nearest.first, size};
    }
    return nearest;
}

}  // namespace orrery::cli
