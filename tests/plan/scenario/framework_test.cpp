// Constants of a preset that are other ones on some devices.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

ReadResult read_with(const std::string& on) {
    const std::string library = std::string(ORRERY_SOURCE_DIR) + "/tests/golden/errors/library";
    return read_scenario_text(
        R"({"model": "models/gpt-96.json", "cluster": "clusters/a100-128.json",
            "layout": {"tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 64},
            "training": {"sequence_length": 2048, "framework": "orrery"}})",
        "run.json", "", {"training.framework.flags.attention_factor.on=" + on}, library);
}

std::string entry(const std::string& device, double value) {
    return fmt::format(R"({{"devices": ["x", "{}"], "value": {}, "source": "of {}"}})", device,
                       value, device);
}

TEST(Framework, HasConstantsOfTheDeviceThatTheClusterHas) {
    const std::string device = read_with("[]").scenario->cluster.device;
    const double usual = read_with("[]").scenario->training.framework.attention_factor;
    const auto factor = [](const std::string& on) {
        const ReadResult result = read_with(on);
        EXPECT_TRUE(result.scenario) << format_text(result.errors);
        return result.scenario ? result.scenario->training.framework.attention_factor : 0;
    };
    EXPECT_EQ(factor("[" + entry("another", 7) + "]"), usual);
    EXPECT_EQ(factor("[" + entry("another", 7) + ", " + entry(device, 3) + "]"), 3);
    // The resolved scenario says the one that holds here, with its own source.
    const ReadResult here = read_with("[" + entry(device, 3) + "]");
    EXPECT_NE(here.resolved_json.find("\"source\": \"of " + device + '"'), std::string::npos);
    EXPECT_EQ(here.resolved_json.find("\"on\""), std::string::npos);
}

TEST(Framework, ChecksConstantsOfOtherDevicesToo) {
    const auto fault = [](const std::string& on) {
        const ReadResult result = read_with(on);
        return result.errors.empty() ? ""
                                     : result.errors[0].pointer + ": " + result.errors[0].message;
    };
    const std::string at = "/training/framework/flags/attention_factor/on";
    EXPECT_EQ(fault("3"), at + ": on must be an array of values on some devices");
    EXPECT_EQ(fault(R"([{"devices": "x", "value": 1, "source": "s"}])"),
              at + "/0/devices: devices must be an array of names of devices");
    EXPECT_EQ(fault("[" + entry("another", -1) + "]").substr(0, at.size() + 8), at + "/0/value");
    EXPECT_EQ(fault(R"([{"devices": ["x"], "value": 1}])").substr(0, at.size() + 2), at + "/0");
}

// Megatron-DeepSpeed of 2021 ran on A100; what runs on devices of later years has fused attention.
TEST(Framework, OfShippedPresetsAttentionIsOfTheDevicesTime) {
    const std::string library = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    const auto kernel = [&](const std::string& cluster) {
        const ReadResult read = read_scenario_text(
            R"({"model": "models/llama2-7b.json", "cluster": "clusters/)" + cluster + R"(.json",
                "layout": {"global_batch_size": 18432},
                "training": {"sequence_length": 2048, "framework": "megatron-deepspeed"}})",
            "run.json", "", {}, library);
        EXPECT_TRUE(read.scenario) << format_text(read.errors);
        return read.scenario->training.framework.attention_kernel;
    };
    for (const char* cluster : {"a100-80gb-sxm-1024", "aurora-max1550-768"})
        EXPECT_EQ(kernel(cluster), AttentionKernel::unfused) << cluster;
    for (const char* cluster : {"h100-sxm-64", "gaudi2-8"})
        EXPECT_EQ(kernel(cluster), AttentionKernel::flash) << cluster;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
