#include "cli/simulation.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/measured_costs.hpp"
#include "cli/report_sections.hpp"
#include "cli/subcommand.hpp"
#include "sim/fleet/goodput.hpp"
#include "sim/replay/measured.hpp"

namespace orrery::cli {
namespace {

void require_draws(const plan::Cluster& cluster, const SimulationQuestion& question) {
    if (question.draws == 0) return;
    if (question.draws < 0 || question.draws > kMostDraws)
        throw UsageError(fmt::format("--draws {}: from 1 to {}", question.draws, kMostDraws));
    if (!cluster.stragglers.any() && !cluster.jitter.any())
        throw UsageError(
            "--draws needs something to draw: cluster.stragglers (--set "
            "cluster.stragglers=megascale) or cluster.jitter");
    if (!question.costs_file.empty())
        throw UsageError("--draws and --costs exclude each other: what was measured is one draw");
}

}  // namespace

ReportInput Simulation::report(const ScenarioInput& arguments) const {
    return {*read.scenario, profile, prediction, arguments, read.resolved_json};
}

Simulation simulated(plan::ReadResult read, const SimulationQuestion& question) {
    const plan::Cluster& cluster = read.scenario->cluster;
    require_draws(cluster, question);
    Simulation answer;
    answer.profile = sim::load_profiles(cluster);
    if (!question.costs_file.empty())
        answer.costs.emplace(
            read_costs(question.costs_file, question.scenario_file, answer.warnings));
    sim::SimulateOptions how;
    how.unfolded = question.unfolded;
    how.costs = answer.costs ? &*answer.costs : nullptr;
    how.keep_trace = question.keep_trace;
    how.plan = question.plan;
    how.stop = question.stop;
    how.draws = question.draws;
    answer.prediction = sim::simulate(*read.scenario, answer.profile, how, read.resolved_json);
    if (answer.prediction.prices)
        answer.prediction.trace.facts.prices = prices_text(*answer.prediction.prices);
    answer.prediction.trace.facts.storage = sim::storage_facts(*read.scenario, answer.prediction);
    answer.read = std::move(read);
    return answer;
}

}  // namespace orrery::cli
