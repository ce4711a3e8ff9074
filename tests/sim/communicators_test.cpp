// How many communicators a prediction counts: those that the plan asks for, in the memory of the
// plan and in a layout's price alike.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/ir/communicators.hpp"
#include "sim/communicators.hpp"
#include "sim/prediction.hpp"
#include "sim/search/layout_pricer.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

const std::string kRuns = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/";

// So many that all else a rank holds is a small part of one: a price says how many it counts.
constexpr double kMegabytes = 1e7;

std::int64_t priced(plan::Scenario scenario, const Profile& profile) {
    scenario.training.framework.communicator_mb = kMegabytes;
    const std::optional<LayoutEstimate> estimate = estimate_layout(scenario, profile);
    EXPECT_TRUE(estimate);
    return estimate ? static_cast<std::int64_t>(estimate->peak_bytes / (kMegabytes * 1e6)) : -1;
}

// Of the stages, what a communicator of a byte adds to each.
std::vector<std::int64_t> predicted(const plan::Plan& plan, plan::Scenario scenario,
                                    const Profile& profile) {
    std::vector<std::int64_t> counts;
    for (const double megabytes : {0.0, 1e-6}) {
        scenario.training.framework.communicator_mb = megabytes;
        const MemoryPrediction memory = predict_memory(plan, scenario, profile);
        for (std::size_t s = 0; s < memory.stages.size(); ++s)
            if (megabytes == 0)
                counts.push_back(-memory.stages[s].other_bytes);
            else
                counts[s] += memory.stages[s].other_bytes;
    }
    return counts;
}

std::vector<std::int64_t> asked(const plan::Plan& plan) {
    std::vector<std::int64_t> counts;
    for (const plan::Communicators& of : plan::communicators_of(plan))
        counts.push_back(of.count());
    return counts;
}

Profile without_process(const plan::Scenario& scenario) {
    Profile profile = load_profiles(scenario.cluster);
    profile.process.reset();
    return profile;
}

// By stage; and of the fullest rank, in a price.
std::string counts_of(const plan::Scenario& scenario) {
    const Profile profile = without_process(scenario);
    const plan::Plan plan = plan::build_plan(scenario);
    const std::vector<std::int64_t> counts = asked(plan);
    return fmt::format("{} {}", predicted(plan, scenario, profile) == counts,
                       priced(scenario, profile) - *std::max_element(counts.begin(), counts.end()));
}

RC_GTEST_PROP(CountedCommunicators, AreThoseThatThePlanAsksFor, ()) {
    const Sets sets = random_sets();
    RC_LOG() << testing::PrintToString(sets) << "\n";
    RC_ASSERT(counts_of(theory::scenario(sets)) == "true 0");
}

// Whose groups random layouts lack: experts, vocabularies that pipeline ranks share out, losses
// that are judged, experts' states that are shared out within parts.
TEST(CountedCommunicators, AreThoseOfRareGroupsToo) {
    const std::string judged = R"(training.loss_spike={"skip_above": 3, "window": 5})";
    const std::vector<std::pair<std::string, Sets>> runs = {
        {"mixtral-8x22b-h100x128.json", {}},
        {"mixtral-8x22b-h100x128.json",
         {"cluster.nodes=4", "layout.data_parallel=16", "layout.pipeline_parallel=1",
          "layout.virtual_pipeline=1", "layout.schedule=1f1b", "layout.zero_group_size=8",
          "model.num_hidden_layers=8"}},
        {"llama3-70b-h100x256.json", {judged, "layout.zero_stage=1"}},
        {"llama3-70b-h100x256.json", {judged, "layout.zero_stage=0"}},
        {"llama3-70b-h100x256.json", {judged, "layout.zero_stage=1", "layout.zero_group_size=2"}},
    };
    for (const auto& [file, sets] : runs) {
        Sets own = sets;
        own.push_back("training.framework=orrery");
        const plan::ReadResult read = plan::read_scenario(kRuns + file, own, theory::library());
        ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
        EXPECT_EQ(counts_of(*read.scenario), "true 0") << testing::PrintToString(own);
    }
}

// A stack that does not perform the plan has a communicator for each of its process groups, which
// Megatron-LM's tensor, pipeline and data groups are here, and those of embeddings and of all.
TEST(CountedCommunicators, OfOtherStacksAreTheirProcessGroups) {
    const plan::Scenario scenario =
        theory::scenario({"training.framework=megatron", "layout.tensor_parallel=2",
                          "layout.pipeline_parallel=4", "layout.data_parallel=2"});
    const Profile profile = without_process(scenario);
    const plan::Plan plan = plan::build_plan(scenario);
    EXPECT_EQ(predicted(plan, scenario, profile), std::vector<std::int64_t>(4, 5));
    EXPECT_EQ(priced(scenario, profile), 5);
    EXPECT_NE(asked(plan), std::vector<std::int64_t>(4, 5));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
