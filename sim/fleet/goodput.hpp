// How long a training run takes with all that happens in weeks: failures, the time until they are
// noticed, restarts, checkpoints, data that come late. The step is the simulator's; this adds what
// lies beyond it. Figures have a spread: of the step, of the rate of failures, of chance.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "sim/fleet/feed.hpp"
#include "sim/fleet/run_model.hpp"
#include "sim/fleet/run_outcome.hpp"
#include "sim/fleet/run_timeline.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

// What a checkpoint holds, and how long it takes.
struct CheckpointCost {
    double bytes = 0;         // of all ranks together, each parameter and state once
    double storage_GBps = 0;  // writing, of the nodes of the run together
    double copy_s = 0;        // of a rank's part to host memory
    double write_s = 0;       // of all to storage
    double load_s = 0;        // of all from storage, each data-parallel copy its own parameters
};

struct GoodputOptions {
    std::size_t runs = 1000;
    std::uint64_t seed = 1;
    const std::atomic<bool>* stop = nullptr;  // becomes true: throws Stopped
};

// A change and what comes of it, computed anew.
struct GoodputChange {
    std::string what;
    double effective_fraction = 0;
    double days = 0;
};

struct Goodput {
    RunModel model;
    CheckpointCost checkpoint;
    DataFeed feed;
    std::optional<CheckpointStorm> storm;  // where checkpoints are written beside training
    std::int64_t steps = 0;
    double tokens = 0;
    bool interval_given = false;  // by run.checkpoint.every_steps
    bool spares_assumed = false;
    double best_interval_s = 0;  // what the model says
    double young_daly_s = 0;

    double hours_between_failures = 0;           // 0: none
    double ideal_days = 0;                       // without failures, checkpoints and waits for data
    double days = 0;                             // mean over runs …
    double low_days = 0, high_days = 0;          // … of which nine in ten lie between these
    double effective_fraction = 0;               // of the wall clock, steps that count
    double failures = 0;                         // of a run, mean
    double analytic_days = 0;                    // expected_wall_s
    std::array<double, kRunAccounts> seconds{};  // by RunAccount, mean over runs
    std::size_t unended = 0;                     // runs that lose more than they do
    // Of the runs that end, the one of middle length: no more than half are shorter, or longer.
    // Nothing where none ends.
    std::optional<RunTimeline> middle;
    std::vector<GoodputChange> changes;  // what would help most first

    double gpu_hours = 0;            // of the run's devices
    std::optional<double> cost_usd;  // of the whole cluster while it runs
    std::optional<double> energy_mwh;
};

// Steps of a run of training.tokens, else run.steps; 0: the scenario says neither.
std::int64_t steps_of_run(const plan::Scenario& scenario);

// Of a scenario with a reliability section and steps, and its prediction. A step on
// `degraded_step_s` goes on where no spare node is left; 0: it waits.
Goodput predict_goodput(const plan::Scenario& scenario, const Prediction& prediction,
                        double degraded_step_s, const GoodputOptions& options);

// What data and checkpoints of a run that trains now should take: of the scenario's storage, saved
// beside training. Nothing where the scenario says nothing of its storage.
trace::StorageFacts storage_facts(const plan::Scenario& scenario, const Prediction& prediction);

// Parts of it, for tests.
CheckpointCost checkpoint_cost(const plan::Scenario& scenario, std::int64_t parameters);
RunModel run_model(const plan::Scenario& scenario, const CheckpointCost& checkpoint);
// Nodes that are under repair at once where failures are as frequent as in one run of twenty at
// most: their mean, and two standard deviations of a Poisson number more.
std::int64_t spares_rarely_short(const RunModel& model);

}  // namespace orrery::sim
