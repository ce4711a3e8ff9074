// What must hold of every valid scenario, from its text to the printed prediction, on random ones.
// Each family is a test of its own, so that they run side by side. RC_PARAMS=max_success=N changes
// how many scenarios each draws; `./orrery test --nightly` draws 10,000 in all.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <map>

#include "cli/report.hpp"
#include "plan/assemble/chosen_schedule.hpp"
#include "plan/passes/pass_table.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/text/text.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::property {
namespace ORRERY_TEST_FILE {

// Read once, when the first property starts.
[[maybe_unused]] const int kCases = ::setenv(
    "RC_PARAMS",
    ("max_success=" + std::to_string((499 + families().size()) / families().size())).c_str(), 0);

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

plan::ReadResult read(const std::string& text, const std::vector<std::string>& sets) {
    return plan::read_scenario_text(text, "random.json", kLibrary, sets, kLibrary);
}

const sim::Profile& profile_of(const plan::Scenario& scenario) {
    static std::map<std::string, sim::Profile> loaded;
    const std::string& path = scenario.cluster.profile_path;
    const auto found = loaded.find(path);
    return found != loaded.end() ? found->second : loaded[path] = sim::load_profile(path);
}

std::string text_fault(const plan::ReadResult& read_once) {
    const plan::ReadResult again = read(read_once.resolved_json, {});
    if (!again.scenario) return "resolved, it is refused: " + plan::format_text(again.errors);
    if (!(*again.scenario == *read_once.scenario)) return "resolved, it reads to another scenario";
    if (again.resolved_json != read_once.resolved_json) return "resolved twice, it reads otherwise";
    return "";
}

std::string plan_text_fault(const plan::Plan& plan) {
    const plan::ParsedPlan parsed = plan::parse_plan(plan::to_text(plan));
    if (!parsed.plan) return "the plan's text is refused: " + parsed.error;
    return *parsed.plan == plan ? "" : "the plan's text reads to another plan";
}

std::string printed(const plan::ReadResult& read, const sim::Prediction& prediction) {
    const cli::ScenarioInput arguments;
    return cli::report_json(
        {*read.scenario, profile_of(*read.scenario), prediction, arguments, read.resolved_json});
}

std::string simulation_fault(const plan::ReadResult& read) {
    const plan::Scenario& scenario = *read.scenario;
    const sim::Profile& profile = profile_of(scenario);
    const sim::Prediction folded = sim::simulate(scenario, profile, {}, "");
    const sim::Prediction unfolded = sim::simulate(scenario, profile, {true}, "");
    const std::string fault = sim::folding_fault(folded, unfolded, scenario.layout.ranks());
    if (!fault.empty()) return fault;
    const sim::Prediction again = sim::simulate(scenario, profile, {}, "");
    return printed(read, folded) == printed(read, again) ? ""
                                                         : "simulated twice, it prints otherwise";
}

std::string pass_fault(const plan::Scenario& scenario) {
    const plan::Dims dims = plan::dims_of(scenario);
    const plan::PlanInput input{scenario, dims,
                                plan::forms_in(plan::chosen_schedule(scenario.layout).grid),
                                plan::sharding_of(scenario), plan::sharding_of(scenario)};
    std::vector<const plan::Pass*> rows;
    for (const plan::Pass& pass : plan::passes())
        if (pass.applies(input)) rows.push_back(&pass);
    const auto pair = plan::excluded_pair(rows);
    if (!pair) return "";
    const auto name = [](plan::PassId id) {
        return std::string(plan::passes()[static_cast<std::size_t>(id)].name);
    };
    return name(pair->first) + " excludes " + name(pair->second) + ", and both apply";
}

std::string fault_of(const RandomScenario& random) {
    const plan::ReadResult scenario = read(random.text, random.sets);
    if (!scenario.scenario) return "refused:\n" + plan::format_text(scenario.errors);
    const std::string excluded = pass_fault(*scenario.scenario);
    if (!excluded.empty()) return excluded;
    const plan::Plan plan = plan::build_plan(*scenario.scenario);
    for (const std::string& fault :
         {text_fault(scenario), sim::plan_fault(plan, *scenario.scenario), plan_text_fault(plan),
          simulation_fault(scenario)})
        if (!fault.empty()) return fault;
    return "";
}

class RandomScenarios : public testing::TestWithParam<Family> {};

TEST_P(RandomScenarios, AreSoundFromTextToPrediction) {
    EXPECT_TRUE(rc::check([this] {
        const RandomScenario random = random_scenario(GetParam());
        for (const std::string& set : random.sets)
            RC_LOG() << "--set '" << set << "' \\\n";
        const std::string fault = fault_of(random);
        RC_LOG() << fault << "\n";
        RC_ASSERT(fault.empty());
    }));
}

INSTANTIATE_TEST_SUITE_P(Families, RandomScenarios, testing::ValuesIn(families()),
                         [](const auto& tested) { return std::string(tested.param.model_type); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::property
