// A plan file and a cluster are all that a simulation needs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"
#include "tests/sanitized.hpp"
#include "tests/several_nodes.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string planned(const std::string& scenario, const std::vector<std::string>& more = {}) {
    const std::string path = testing::TempDir() + "planned.plan";
    fs::remove(path);
    std::vector<std::string> args = {"plan", scenario, "--output", path};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    return path;
}

// What a plan leaves open of a scenario, as a file of its own beside a test's outputs.
std::string open_parts(const std::string& scenario) {
    Json open = Json::parse(content_of(scenario), nullptr, true, true);
    for (const char* part : {"model", "layout", "training", "description", "imported"})
        open.erase(part);
    EXPECT_TRUE(open.contains("cluster"));
    return written("open_parts.json", open.dump());
}

// Standard output and the trace.
std::pair<std::string, std::string> simulated(const std::vector<std::string>& arguments) {
    const std::string trace = testing::TempDir() + "from_plan.orrery";
    fs::remove(trace);
    std::vector<std::string> args = {"simulate"};
    args.insert(args.end(), arguments.begin(), arguments.end());
    args.insert(args.end(), {"--json", "--trace", trace});
    const Outcome outcome = run(args);
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 4) << outcome.err;
    return {outcome.out, content_of(trace)};
}

// Runs on several nodes take seconds each: one in four, all of them at night.
TEST(PlanFile, GivesTheBytesThatItsScenarioGives) {
    std::vector<std::string> scenarios;
    for (const auto& entry : fs::directory_iterator(ORRERY_SOURCE_DIR "/scenarios/runs"))
        scenarios.push_back(entry.path());
    EXPECT_GT(scenarios.size(), 10U);
    std::sort(scenarios.begin(), scenarios.end());
    const bool all = std::getenv("ORRERY_EVERY_RUN") != nullptr;
    std::size_t large = 0;
    for (const std::string& scenario : scenarios) {
        if (on_several_nodes(scenario) && (sanitized() || (large++ % 4 != 0 && !all))) continue;
        const auto alone = simulated({scenario});
        EXPECT_FALSE(alone.second.empty());
        const std::string plan = planned(scenario);
        EXPECT_TRUE(simulated({open_parts(scenario), "--plan", plan}) == alone) << scenario;
    }
}

// The plan is another's: nothing of FILE's own layout is looked at.
TEST(PlanFile, IsWhatIsSimulated) {
    const std::vector<std::string> sets = {"--set", "layout.schedule=gpipe",
                                           "--set", "training.sequence_length=64",
                                           "--set", "training.loss_logits=fused"};
    std::vector<std::string> changed = {tiny()};
    changed.insert(changed.end(), sets.begin(), sets.end());
    const auto expected = simulated(changed);
    EXPECT_TRUE(simulated({tiny(), "--plan", planned(tiny(), sets)}) == expected);
    EXPECT_FALSE(simulated({tiny()}) == expected);
}

TEST(PlanFile, LeavesTheClusterOpen) {
    const std::string plan = planned(tiny());
    const std::string set = "cluster.intra_node.latency_us=500";
    EXPECT_TRUE(simulated({tiny(), "--plan", plan, "--set", set}) ==
                simulated({tiny(), "--set", set}));
    const Outcome refused =
        run({"simulate", tiny(), "--plan", plan, "--set", "layout.zero_stage=1"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("--set layout.zero_stage=1: " + plan +
                               " says it; beside --plan only keys of cluster and run can be set"),
              std::string::npos)
        << refused.err;
}

void expect_refused(const std::string& text, const std::string& why) {
    const std::string path = written("refused.plan", text);
    const Outcome outcome = run({"simulate", tiny(), "--plan", path});
    EXPECT_EQ(outcome.code, 5);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
}

TEST(PlanFile, IsRefusedWhereItIsNotWhole) {
    const std::string text = content_of(planned(tiny()));
    expect_refused("", "line 1, column 1: found the end of the text, expected \"orrery\"");
    expect_refused(replaced(text, "orrery plan 3", "orrery plan 2"),
                   "expected version 3 of the text form");
    const std::size_t end = text.find("\nend\n") + 5;
    expect_refused(text.substr(0, end - 2), "found \"en\"");
    expect_refused(text.substr(0, end),
                   "a plan alone: what was planned does not stand behind its end");
    expect_refused(text.substr(0, text.size() - 3), "error[S002]");
    expect_refused(text.substr(0, end) + "facts\n{}\n", "this is no plan file");
    const Outcome missing =
        run({"simulate", tiny(), "--plan", testing::TempDir() + "nowhere.plan"});
    EXPECT_EQ(missing.code, 5);
}

// "auto" comes to what the plan has, not to what another cluster has room for.
TEST(PlanFile, KeepsItsRanksOnAnotherCluster) {
    const std::string automatic = "layout.data_parallel=auto";
    const std::string plan = planned(tiny(), {"--set", automatic});
    const auto data_parallel = [](const std::pair<std::string, std::string>& outputs) {
        return Json::parse(outputs.first)["scenario"]["layout"]["data_parallel"].get<int>();
    };
    const int planned_ranks = data_parallel(simulated({tiny(), "--set", automatic}));
    const std::string larger = "cluster.nodes=4", exact = "cluster.devices_per_node=4";
    EXPECT_EQ(data_parallel(simulated({tiny(), "--plan", plan, "--set", larger, "--set", exact})),
              planned_ranks);
    EXPECT_NE(
        data_parallel(simulated({tiny(), "--set", automatic, "--set", larger, "--set", exact})),
        planned_ranks);
}

TEST(PlanFile, IsRefusedWhereItsPlanBreaksItsRules) {
    const std::string text = content_of(planned(tiny()));
    const std::size_t at = text.find("fc1.weight=r") + 11;
    const std::size_t offset = text.find('@', at) + 1;
    expect_refused(text.substr(0, offset) + "9" + text.substr(offset),
                   "a plan that breaks its rules: pipeline rank 0: ");
    const std::string micro_batches = text.substr(text.find("micro_batches "), 15);
    expect_refused(replaced(text, micro_batches, "micro_batches 9"),
                   "the plan is for micro-batches: 9, the scenario asks for ");
}

TEST(PlanFile, IsWrittenOntoNothingElse) {
    const std::string notes = written("notes.plan", "notes");
    const Outcome refused = run({"plan", tiny(), "--output", notes});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("is no plan of orrery"), std::string::npos) << refused.err;
    EXPECT_EQ(content_of(notes), "notes");
    for (const char* option : {"--json", "--text"})
        EXPECT_EQ(run({"plan", tiny(), option, "--output", testing::TempDir() + "x.plan"}).code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
