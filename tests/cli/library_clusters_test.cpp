// Clusters of the library made as large as asked for: slices of pods have the shapes that Google
// rents (How To Scale Your Model, part 2: rings where a slice is made of whole cubes, or an axis
// of a plane is whole).
#include "cli/library_clusters.hpp"

#include <gtest/gtest.h>

#include "cli/library.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using Json = nlohmann::ordered_json;

LibraryCluster shipped(const std::string& name) {
    std::string why;
    const std::string reference = "clusters/" + name + ".json";
    const auto scenario = probe(LibraryKind::clusters, reference, why);
    EXPECT_TRUE(scenario) << why;
    return {reference, scenario->cluster};
}

Json sized(const std::string& name, std::int64_t gpus) {
    return cluster_of_size(shipped(name),
                           std::string(ORRERY_SOURCE_DIR) + "/scenarios/clusters/" + name + ".json",
                           gpus);
}

TEST(LibraryClusters, AreCutIntoSlicesOfATorus) {
    const struct {
        const char* cluster;
        std::int64_t gpus;
        std::vector<int> shape;
        std::vector<bool> wraps;
    } cases[] = {
        {"tpu-v5p-512", 256, {4, 8, 8}, {true, true, true}},
        {"tpu-v5p-512", 64, {4, 4, 4}, {true, true, true}},
        {"tpu-v5p-512", 8, {2, 2, 2}, {false, false, false}},
        {"tpu-v6e-256", 128, {8, 16}, {false, true}},
        {"tpu-v6e-256", 8, {2, 4}, {false, false}},
    };
    for (const auto& c : cases) {
        const Json cluster = sized(c.cluster, c.gpus);
        EXPECT_EQ(cluster.at("nodes"), 1) << c.gpus;
        EXPECT_EQ(cluster.at("devices_per_node"), c.gpus);
        EXPECT_EQ(cluster.at("intra_node").at("shape"), Json(c.shape)) << c.gpus;
        EXPECT_EQ(cluster.at("intra_node").at("wraparound"), Json(c.wraps)) << c.gpus;
        EXPECT_EQ(cluster.at("inter_node").at("nics_per_node"), c.gpus);
    }
}

TEST(LibraryClusters, AreWholeSlicesWhereThatIsAskedFor) {
    EXPECT_EQ(sized("tpu-v6e-256", 256), "clusters/tpu-v6e-256.json");
    EXPECT_EQ(sized("tpu-v6e-256", 1024).at("nodes"), 4);
    EXPECT_EQ(sized("tpu-v6e-256", 1024).at("devices_per_node"), 256);
    EXPECT_TRUE(sized("tpu-v6e-256", 96).is_null());
    EXPECT_TRUE(sized("tpu-v6e-256", 300).is_null());
}

TEST(LibraryClusters, NameTheNearestSizesThatThereAre) {
    using Sizes = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(nearest_sizes(shipped("tpu-v6e-256").cluster, 96), Sizes(64, 128));
    EXPECT_EQ(nearest_sizes(shipped("tpu-v6e-256").cluster, 300), Sizes(256, 512));
    EXPECT_EQ(nearest_sizes(shipped("h100-sxm-64").cluster, 12), Sizes(8, 16));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
