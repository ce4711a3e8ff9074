#include "cli/run/train_forecast.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "cli/machine_files.hpp"
#include "sim/prediction.hpp"

namespace orrery::cli {
namespace {

// Ranks are cores of this computer, and nowhere else.
bool is_all_here(const TrainRun& run) {
    return run.placement.on_host() && run.ranks_here == run.scenario.layout.ranks() &&
           run.scenario.cluster.intra_node.kind == plan::IntraNodeKind::host;
}

StepForecast none(std::string why) {
    StepForecast forecast;
    forecast.why_none = std::move(why);
    return forecast;
}

}  // namespace

PricedRun priced_run(const TrainRun& run, const ScenarioInput& input) {
    PricedRun priced{run.scenario, sim::load_profiles(run.scenario.cluster), ""};
    if (!is_all_here(run)) return priced;
    if (is_guess_of_cores(priced.scenario, priced.profile)) {
        const std::string set = fmt::format("cluster.profile={}", plan::kThisMachine);
        const auto own = input.read_with({set}, OwnProfile::find);
        if (!own) {
            priced.why_not =
                fmt::format("not yet: --set {} times this computer once, in seconds", set);
            return priced;
        }
        priced.scenario = *own;
        priced.profile = sim::load_profiles(own->cluster);
    }
    if (priced.profile.hardware.multiprocessors.value != run.threads_per_rank)
        priced.why_not = fmt::format("no: {} is of ranks of {} threads",
                                     file_name(priced.scenario.cluster.profile_path),
                                     priced.profile.hardware.multiprocessors.value);
    return priced;
}

std::optional<StepForecast> forecast_of(const TrainRun& run, const ScenarioInput& input) {
    if (!is_all_here(run)) return std::nullopt;
    const PricedRun priced = priced_run(run, input);
    if (!priced.why_not.empty()) return none(priced.why_not);
    try {
        const sim::StepPrediction step =
            sim::simulate(priced.scenario, priced.profile, {false, nullptr, false}, "{}").step;
        return StepForecast{step.time_s, step.low_s, step.high_s,
                            file_name(priced.scenario.cluster.profile_path)};
    } catch (const std::runtime_error& error) {  // the run has ended well, whatever a profile lacks
        return none(fmt::format("no: {}", error.what()));
    }
}

}  // namespace orrery::cli
