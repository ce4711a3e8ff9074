// Which stack `init` takes where none is named: Orrery's own where that trains (NVIDIA's GPUs and
// CPUs), the device's usual one elsewhere, as presets say.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/library.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

json drafted(std::vector<std::string> more) {
    std::vector<std::string> args = {"init", "llama3-8b", "--global-batch", "16", "--gpus", "8"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    json draft = json::parse(outcome.out, nullptr, false);
    draft["said"] = outcome.err;
    return draft;
}

TEST(UsualFramework, IsOrrerysOwnWhereThatTrains) {
    for (const char* device : {"h100-sxm", "v100-32gb-sxm", "gb200", "rtx-4090", "cpu-core"})
        EXPECT_EQ(usual_framework(device), "orrery") << device;
    EXPECT_FALSE(drafted({"--gpu", "h100"})["training"].contains("framework"));
}

TEST(UsualFramework, IsTheDevicesElsewhere) {
    const json draft = drafted({"--gpu", "tpu-v5p"});
    EXPECT_EQ(draft["training"]["framework"], "maxtext");
    EXPECT_NE(draft["said"].get<std::string>().find("assumed: training.framework maxtext\n"),
              std::string::npos)
        << draft["said"];
    EXPECT_EQ(drafted({"--gpu", "tpu-v5p", "--framework", "orrery"})["training"]["framework"],
              "orrery");
    const std::map<std::string, std::string> stacks = {{"ascend-910b-64gb", "mindspeed"},
                                                       {"gaudi2", "optimum-habana"},
                                                       {"max1550-tile", "megatron-deepspeed"},
                                                       {"mi300x", "megatron"},
                                                       {"tpu-v6e", "maxtext"}};
    for (const auto& [device, stack] : stacks)
        EXPECT_EQ(usual_framework(device), stack) << device;
}

// Each beginning is of a device of the library, and no device begins as two stacks say.
TEST(UsualFramework, IsSaidOnceOfDevicesThatThereAre) {
    std::map<std::string, int> claims;
    for (const std::string& profile : library_names(LibraryKind::profiles, ""))
        claims[std::filesystem::path(profile).stem().string()] = 0;
    int said = 0;
    for (const std::string& reference : library_names(LibraryKind::frameworks, "")) {
        const json preset =
            json::parse(content_of(std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + reference));
        for (const json& beginning : preset.value("usual_on", json::array())) {
            int found = 0;
            for (auto& [device, times] : claims) {
                const bool begins = device.starts_with(beginning.get<std::string>());
                found += begins;
                times += begins;
            }
            EXPECT_GT(found, 0) << reference << ": " << beginning;
            ++said;
        }
    }
    EXPECT_GT(said, 0);
    for (const auto& [device, times] : claims)
        EXPECT_LE(times, 1) << device;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
