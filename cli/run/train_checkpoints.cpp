// How orrery train saves a run and goes on with one.
#include <fmt/format.h>

#include "cli/run/train_run.hpp"

namespace orrery::cli {
namespace {

// What makes the position in the data another one than it was. It goes on all the same: whoever
// changes the data on the way may mean it.
void warn_of_other_data(const runtime::SavedData& was, const runtime::SavedData& is,
                        Console& console) {
    const auto warn = [&](const char* what, const auto& before, const auto& now) {
        if (before == now) return;
        console.err << fmt::format(
            "orrery train: warning: the checkpoint is of a run with {} {}, "
            "this one's is {}: samples may come twice, or not at all\n",
            what, before, now);
    };
    warn("training.seed", was.seed, is.seed);
    warn("training.sequence_length", was.sequence_length, is.sequence_length);
    warn("tokens in its data", was.tokens, is.tokens);
    if (was.tokens == is.tokens && !was.content.empty() && was.content != is.content)
        console.err << fmt::format(
            "orrery train: warning: the checkpoint is of a run whose data, {}, had other content "
            "than {} has: samples may come twice, or not at all\n",
            was.path, is.path);
}

// Of all ranks together: as the scenario says, or as often as devices of published runs failed.
double mean_time_to_failure_s(const plan::Scenario& scenario) {
    constexpr double kSecondsPerHour = 3600;
    const double said = scenario.run.mean_time_between_failures_h;
    const double hours = said > 0 ? said
                                  : runtime::kHoursBetweenFailuresOfADevice /
                                        static_cast<double>(scenario.layout.ranks());
    return hours * kSecondsPerHour;
}

}  // namespace

std::optional<runtime::CheckpointOptions> checkpoint_options(const TrainRun& run,
                                                             const Resumption& resumption,
                                                             TrainOutput& output,
                                                             Console& console) {
    const plan::Run& said = run.scenario.run;
    if (said.checkpoint_path.empty()) return std::nullopt;
    runtime::CheckpointOptions options;
    options.path = said.checkpoint_path;
    options.every_steps = said.checkpoint_every_steps;
    options.mean_time_to_failure_s = mean_time_to_failure_s(run.scenario);
    options.keep = said.checkpoint_keep;
    options.resume = resumption.asked;
    options.resume_step = resumption.step;
    options.scenario = run.resolved_json;
    options.data = {run.scenario.training.seed, run.scenario.training.sequence_length,
                    said.data_path, run.data_tokens, run.data_content};
    options.found_earlier = [&console, path = options.path] {
        console.err << fmt::format(
            "orrery train: warning: {} has checkpoints of an earlier run; "
            "they are moved to a folder in it when the first one of this "
            "run is written (--resume goes on from them)\n",
            path);
    };
    const runtime::SavedData data = options.data;
    options.resumed = [&run, &output, &console, data](const runtime::CheckpointReader& from,
                                                      const runtime::ResumptionReport& report) {
        warn_of_other_data(from.manifest().data, data, console);
        output.resumed(run, from, report);
    };
    options.published = [&run, &output](const runtime::CheckpointReport& report) {
        output.checkpointed(run, report);
    };
    options.chosen = [&run, &output](const runtime::IntervalChoice& choice) {
        output.interval_chosen(run, choice);
    };
    return options;
}

}  // namespace orrery::cli
