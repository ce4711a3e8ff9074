// What a scenario says of NCCL, what the environment says, and who wins.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/scenario/schema.hpp"
#include "runtime/launch/nccl_variables.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

NcclVariables variables(const plan::NcclSettings& settings,
                        const std::map<std::string, std::string>& environment) {
    return nccl_variables(settings, [&](const std::string& name) -> std::optional<std::string> {
        const auto found = environment.find(name);
        if (found == environment.end()) return std::nullopt;
        return found->second;
    });
}

TEST(NcclVariables, EveryKeyHasItsVariable) {
    const plan::NcclSettings all{22,     0, "mlx5_0", "^docker", "Ring", "Simple",
                                 "WARN", 3, 106,      4,         "PHB",  0,
                                 2,      1, 4,        16,        {},     false};
    const NcclVariables result = variables(all, {});
    EXPECT_EQ(result.exported, (std::vector<Variable>{{"NCCL_IB_TIMEOUT", "22"},
                                                      {"NCCL_IB_RETRY_CNT", "0"},
                                                      {"NCCL_IB_HCA", "mlx5_0"},
                                                      {"NCCL_SOCKET_IFNAME", "^docker"},
                                                      {"NCCL_ALGO", "Ring"},
                                                      {"NCCL_PROTO", "Simple"},
                                                      {"NCCL_DEBUG", "WARN"},
                                                      {"NCCL_IB_GID_INDEX", "3"},
                                                      {"NCCL_IB_TC", "106"},
                                                      {"NCCL_IB_SL", "4"},
                                                      {"NCCL_NET_GDR_LEVEL", "PHB"},
                                                      {"NCCL_CROSS_NIC", "0"},
                                                      {"NCCL_NVLS_ENABLE", "2"},
                                                      {"NCCL_COLLNET_ENABLE", "1"},
                                                      {"NCCL_MIN_CTAS", "4"},
                                                      {"NCCL_MAX_CTAS", "16"}}));
    ASSERT_EQ(result.lines.size(), result.exported.size());
    // A key that nothing exports would be an option that nothing reads.
    const plan::KeySpec* const declared = plan::key_at("run.nccl");
    ASSERT_NE(declared, nullptr);
    // Behind them what communicators are made with (runtime/backends/nccl_groups.hpp).
    ASSERT_EQ(declared->keys.size(), result.exported.size() + 2);
    EXPECT_EQ(declared->keys[result.exported.size()].name, "groups");
    EXPECT_EQ(declared->keys.back().name, "registered_buffers");
    for (std::size_t i = 0; i < result.exported.size(); ++i)
        EXPECT_EQ(declared->keys[i].aliases.front(), result.exported[i].name);
    EXPECT_EQ(result.lines[3], "NCCL_SOCKET_IFNAME=^docker (run.nccl.socket_interface)");
}

TEST(NcclVariables, ASilentScenarioLeavesTheEnvironmentAsItIs) {
    const NcclVariables result = variables({}, {{"NCCL_DEBUG", "INFO"}, {"NCCL_P2P_LEVEL", "5"}});
    EXPECT_TRUE(result.exported.empty());
    EXPECT_EQ(result.lines, std::vector<std::string>{"NCCL_DEBUG=INFO (the environment's)"});
}

TEST(NcclVariables, AScenarioThatSpeaksWinsAndSaysSo) {
    plan::NcclSettings settings;
    settings.ib_timeout = 22;
    settings.debug = "WARN";
    const NcclVariables result =
        variables(settings, {{"NCCL_IB_TIMEOUT", "18"}, {"NCCL_DEBUG", "WARN"}});
    EXPECT_EQ(result.exported, (std::vector<Variable>{{"NCCL_IB_TIMEOUT", "22"}}));
    EXPECT_EQ(result.lines,
              (std::vector<std::string>{
                  "NCCL_IB_TIMEOUT=22 (run.nccl.ib_timeout, instead of the environment's 18)",
                  "NCCL_DEBUG=WARN (run.nccl.debug)"}));
}

// Where groups have bounds of their own all communicators are made with theirs: a variable would
// win over each of them.
TEST(NcclVariables, BoundsOfGroupsTakeTheVariablesAway) {
    plan::NcclSettings settings;
    settings.debug = "WARN";
    settings.max_ctas = 32;
    settings.groups.tensor = {4, 16};
    settings.groups.data.max = 8;
    const NcclVariables result =
        variables(settings, {{"NCCL_MIN_CTAS", "2"}, {"NCCL_MAX_CTAS", "64"}});
    EXPECT_EQ(result.exported, (std::vector<Variable>{{"NCCL_DEBUG", "WARN"}}));
    EXPECT_EQ(result.removed, (std::vector<std::string>{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}));
    EXPECT_EQ(result.lines,
              (std::vector<std::string>{
                  "NCCL_DEBUG=WARN (run.nccl.debug)",
                  "SMs of other communicators, min_ctas: 2 (the environment's)",
                  "SMs of other communicators, max_ctas: 32 (run.nccl.max_ctas, instead of "
                  "NCCL_MAX_CTAS=64)",
                  "SMs of tensor communicators, min_ctas: 4 (run.nccl.groups.tensor)",
                  "SMs of tensor communicators, max_ctas: 16 (run.nccl.groups.tensor)",
                  "SMs of data communicators, max_ctas: 8 (run.nccl.groups.data)"}));
    EXPECT_TRUE(variables(settings, {}).removed.empty());
}

TEST(NcclVariables, AreRemoved) {
    setenv("TEST_OF_REMOVAL", "there", 1);
    remove_variables({"TEST_OF_REMOVAL"});
    EXPECT_EQ(std::getenv("TEST_OF_REMOVAL"), nullptr);
}

TEST(NcclVariables, AreExported) {
    setenv("TEST_OF_EXPORT", "before", 1);
    export_variables({{"TEST_OF_EXPORT", "after"}});
    EXPECT_STREQ(std::getenv("TEST_OF_EXPORT"), "after");
    unsetenv("TEST_OF_EXPORT");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
