#include "cli/measured_costs.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "cli/scenario_input.hpp"
#include "plan/assemble/build_plan.hpp"
#include "sim/machine.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

// Why nothing can be scaled; empty: the costs are held against the scenario of their trace.
std::string hold_against_model(sim::MeasuredCosts& costs, const std::string& beside) {
    if (costs.scenario_json().empty()) return "it does not say its scenario";
    const plan::ReadResult read = plan::read_scenario_text(
        costs.scenario_json(), costs.path(), std::filesystem::path(beside).parent_path().string(),
        {}, library_folder());
    if (!read.scenario) return "its scenario: " + read.errors.front().message;
    try {
        costs.hold_against(sim::predicted_ops(plan::build_plan(*read.scenario), *read.scenario,
                                              sim::load_profiles(read.scenario->cluster)));
    } catch (const sim::ProfileError& error) {
        return error.what();
    } catch (const plan::ScenarioError& error) {
        return "its scenario: " + error.diagnostic().message;
    }
    return "";
}

}  // namespace

sim::MeasuredCosts read_costs(const std::string& trace, const std::string& beside,
                              std::vector<std::string>& warnings) {
    trace::Trace measured = trace::read_trace(trace);
    if (measured.facts.ranks_per_device > 1)
        warnings.push_back(
            fmt::format("{}: several ranks shared a GPU: its times say nothing", trace));
    sim::MeasuredCosts costs(std::move(measured), trace);
    if (const std::string why = hold_against_model(costs, beside); !why.empty())
        warnings.push_back(
            fmt::format("{}: {}; ops take what they took there, on this cluster too, and others "
                        "the profile's price",
                        trace, why));
    return costs;
}

}  // namespace orrery::cli
