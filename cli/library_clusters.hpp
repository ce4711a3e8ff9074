// The clusters of the library, and one of them made as large as asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

struct LibraryCluster {
    std::string reference;  // "clusters/h100-sxm-256.json"; or a file's path
    plan::Cluster cluster;
};

std::vector<LibraryCluster> library_clusters();

// Of these devices, the one that holds `gpus` and is nearest in size; those that are called by
// their device are told before those that are called by their owner. Without a number one that is
// near a node in size. Null: none has a network.
const LibraryCluster* nearest_cluster(const std::vector<LibraryCluster>& all,
                                      const std::set<std::string>& devices,
                                      std::optional<std::int64_t> gpus);

// `chosen` with so many devices: its reference, or its file's keys with others; `path` is where
// those stand. Null: `gpus` are no whole nodes of it, nor a slice of a torus.
nlohmann::ordered_json cluster_of_size(const LibraryCluster& chosen, const std::string& path,
                                       std::int64_t gpus);

// The numbers of devices below and above, where `gpus` are none that cluster_of_size gives.
std::pair<std::int64_t, std::int64_t> nearest_sizes(const plan::Cluster& cluster,
                                                    std::int64_t gpus);

}  // namespace orrery::cli
