// Every fix is held against the scenario that it says: read again, simulated by itself.
#include "sim/whatif/fixes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/sanitized.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

// The A100 with so much memory.
Profile profile_of(double capacity_bytes) {
    static const Profile loaded = load_profile(theory::library() + "/profiles/h100-sxm.json");
    Profile profile = loaded;
    profile.hardware.capacity_bytes.value = capacity_bytes;
    return profile;
}

ReadWith reader_of(const Sets& sets) {
    return [sets](const std::vector<std::string>& overrides) {
        return plan::read_scenario_text(theory::kGpt, "theory.json", "", joined(sets, overrides),
                                        theory::library())
            .scenario;
    };
}

struct Searched {
    Prediction now;
    FixSearch found;
    Profile profile;
};

// In a device that has `share` of what the scenario needs.
Searched searched(const Sets& sets, double share) {
    const plan::Scenario scenario = theory::scenario(sets);
    const Profile roomy = profile_of(80e9);
    const double peak = static_cast<double>(
        predict_memory(plan::build_plan(scenario), scenario, roomy).worst().peak_bytes);
    Searched searched{{}, {}, profile_of(peak * share)};
    searched.now = simulate(scenario, searched.profile, {}, "");
    searched.found = find_fixes(scenario, searched.profile, searched.now, reader_of(sets));
    return searched;
}

bool contains(const std::vector<Setting>& all, const std::vector<Setting>& some) {
    return std::all_of(some.begin(), some.end(), [&](const Setting& setting) {
        return std::find(all.begin(), all.end(), setting) != all.end();
    });
}

// What is wrong with what was found; empty when all is well.
std::string fault_of(const Searched& searched, const Sets& sets) {
    const auto& fixes = searched.found.fixes;
    if (fixes.size() > 3) return "more than three";
    if (fixes.empty() != searched.found.closest.has_value() && searched.found.tried > 0)
        return "the closest is given where something fits, or not where nothing does";
    for (const Fix& fix : fixes) {
        const Sets all = joined(sets, overrides_of(fix.settings));
        const Prediction alone = simulate(theory::scenario(all), searched.profile, {}, "");
        const std::string which = testing::PrintToString(overrides_of(fix.settings)) + " ";
        if (alone.memory.worst().peak_bytes != fix.peak_bytes) return which + "other peak";
        if (alone.memory.verdict != fix.verdict) return which + "other verdict";
        if (fix.verdict == Verdict::exceeds) return which + "does not fit";
        if (alone.step.time_s != fix.step_time_s) return which + "other step";
        if (fix.step_time_ratio != fix.step_time_s / searched.now.step.time_s)
            return which + "other ratio";
        if (alone.conserved.tokens_per_step != searched.now.conserved.tokens_per_step)
            return which + "other batch";
        for (const Fix& other : fixes)
            if (&other != &fix && contains(fix.settings, other.settings))
                return which + "contains a smaller one";
    }
    for (std::size_t i = 1; i < fixes.size(); ++i)
        if (fixes[i - 1].settings.size() > fixes[i].settings.size())
            return "not the smallest first";
    return "";
}

// A sanitizer takes its time with each, and needs few.
const int kFewUnderASanitizer = sanitized() ? setenv("RC_PARAMS", "max_success=15", 0) : 0;

RC_GTEST_PROP(Fixes, AreWhatTheySay, ()) {
    // A second each: by day one draw in four is looked at.
    const bool all = sanitized() || std::getenv("ORRERY_EVERY_RUN") != nullptr;
    if (!all && *rc::gen::inRange(0, 4) != 0) return;
    const Sets sets = random_sets();
    const double share = *rc::gen::elementOf(std::vector<double>{0.5, 0.7, 0.9, 1.05});
    RC_LOG() << share << " " << testing::PrintToString(sets) << "\n";
    const std::string fault = fault_of(searched(sets, share), sets);
    RC_LOG() << fault << "\n";
    RC_ASSERT(fault.empty());
}

// Eight ranks that each hold all optimizer states: sharing them out is one key, and it is enough.
TEST(Fixes, OfReplicatedStatesShareThem) {
    const Sets sets = {"model.n_embd=1024", "layout.data_parallel=8", "layout.zero_stage=0"};
    const Searched result = searched(sets, 0.8);
    EXPECT_EQ(fault_of(result, sets), "");
    ASSERT_FALSE(result.found.fixes.empty());
    const bool zero =
        std::any_of(result.found.fixes.begin(), result.found.fixes.end(), [](const Fix& fix) {
            return fix.settings == std::vector<Setting>{{"layout.zero_stage", "1"}};
        });
    EXPECT_TRUE(zero) << "the mildest stage that fits";
}

// tensor × pipeline × data fills the cluster: two tensor ranks for one need half the copies.
TEST(Fixes, DivideDataParallelWhereTheClusterIsFull) {
    const Sets sets = {"cluster.nodes=1", "layout.data_parallel=8", "model.n_embd=1024",
                       "layout.zero_stage=3", "layout.recompute=full"};
    const Searched result = searched(sets, 0.75);
    EXPECT_EQ(fault_of(result, sets), "");
    const auto& keys = result.found.keys;
    EXPECT_NE(std::find(keys.begin(), keys.end(), "layout.tensor_parallel"), keys.end());
    EXPECT_NE(std::find(keys.begin(), keys.end(), "layout.data_parallel"), keys.end());
}

TEST(Fixes, PairsAreTriedWhereNoChangeAloneSuffices) {
    const Sets sets = {"model.n_embd=1024", "cluster.nodes=1", "layout.data_parallel=8",
                       "layout.micro_batch_size=8", "layout.global_batch_size=64"};
    const Searched result = searched(sets, 0.05);
    EXPECT_EQ(fault_of(result, sets), "");
    EXPECT_GT(result.found.tried, 10);
}

TEST(Fixes, HostMemoryAndMoreNodesBelongToTheSearch) {
    const Sets sets = {
        "cluster.nodes=1",
        "model.n_embd=1024",
        "layout.data_parallel=8",
        "layout.zero_stage=3",
        "layout.recompute=full",
        "layout.global_batch_size=512",
        R"(cluster.host_memory={"capacity_GB": 2000, "bandwidth_GBps": 55, "latency_us": 10})"};
    const Searched result = searched(sets, 0.8);
    EXPECT_EQ(fault_of(result, sets), "");
    const auto& keys = result.found.keys;
    for (const char* key : {"layout.offload.optimizer", "layout.offload.gradients",
                            "layout.offload.parameters", "cluster.nodes"})
        EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
}

TEST(Fixes, WhereNothingFitsNameTheClosest) {
    const Sets sets = {"layout.data_parallel=8"};
    const Searched result = searched(sets, 1e-6);
    EXPECT_TRUE(result.found.fixes.empty());
    ASSERT_TRUE(result.found.closest);
    EXPECT_GT(result.found.tried, 0);
    EXPECT_LT(result.found.closest->peak_bytes, result.now.memory.worst().peak_bytes);
    const Prediction alone =
        simulate(theory::scenario(joined(sets, overrides_of(result.found.closest->settings))),
                 result.profile, {}, "");
    EXPECT_EQ(alone.memory.worst().peak_bytes, result.found.closest->peak_bytes);
}

TEST(Fixes, AreNotLookedForWhereItFits) {
    const Searched result = searched({}, 10);
    EXPECT_EQ(result.found.tried, 0);
    EXPECT_TRUE(result.found.fixes.empty());
}

TEST(Fixes, OfATightScenarioFitSurely) {
    const Sets sets = {"model.n_embd=1024", "layout.data_parallel=8", "layout.zero_stage=0"};
    const Searched result = searched(sets, 1.02);
    ASSERT_EQ(result.now.memory.verdict, Verdict::tight);
    ASSERT_FALSE(result.found.fixes.empty());
    for (const Fix& fix : result.found.fixes)
        EXPECT_EQ(fix.verdict, Verdict::fits);
}

TEST(Fixes, AreNoneWhereTheReaderRefusesAll) {
    const plan::Scenario scenario = theory::scenario({});
    const Profile small = profile_of(1e6);
    const FixSearch found =
        find_fixes(scenario, small, simulate(scenario, small, {}, ""),
                   [](const std::vector<std::string>&) -> std::optional<plan::Scenario> {
                       return std::nullopt;
                   });
    EXPECT_EQ(found.tried, 0);
    EXPECT_FALSE(found.closest);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
