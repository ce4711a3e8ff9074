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

std::optional<StepForecast> forecast_of(const TrainRun& run, const ScenarioInput& input) {
    if (!is_all_here(run)) return std::nullopt;
    std::optional<plan::Scenario> scenario = run.scenario;
    sim::Profile profile = sim::load_profiles(scenario->cluster);
    if (is_guess_of_cores(*scenario, profile)) {
        const std::string set = fmt::format("cluster.profile={}", plan::kThisMachine);
        scenario = input.read_with({set}, OwnProfile::find);
        if (!scenario)
            return none(fmt::format("not yet: --set {} times this computer once, in seconds", set));
        profile = sim::load_profiles(scenario->cluster);
    }
    const std::string name = file_name(scenario->cluster.profile_path);
    if (profile.hardware.multiprocessors.value != run.threads_per_rank)
        return none(fmt::format("no: {} is of ranks of {} threads", name,
                                profile.hardware.multiprocessors.value));
    try {
        const sim::StepPrediction step =
            sim::simulate(*scenario, profile, {false, nullptr, false}, "{}").step;
        return StepForecast{step.time_s, step.low_s, step.high_s, name};
    } catch (const std::runtime_error& error) {  // the run has ended well, whatever a profile lacks
        return none(fmt::format("no: {}", error.what()));
    }
}

}  // namespace orrery::cli
