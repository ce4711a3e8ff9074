#include "sim/fleet/goodput.hpp"

#include <algorithm>
#include <cmath>

#include "plan/blocks/dims.hpp"
#include "plan/check.hpp"
#include "sim/engine/uneven.hpp"

namespace orrery::sim {
namespace {

// Of a device to host memory where the cluster does not say: PCIe 4.0 x16, 32 GB/s, four fifths of
// it, as CUDA's own bandwidth test shows on A100.
constexpr double kHostCopyGBps = 25;

constexpr double kNineteenIn20 = 1.645;  // of a normal distribution, in deviations

std::int64_t nodes_of(const plan::Scenario& scenario) {
    const std::int64_t per_node = scenario.cluster.devices_per_node;
    return (scenario.layout.ranks() + per_node - 1) / per_node;
}

plan::SharedStorage storage_of(const plan::Scenario& scenario) {
    return scenario.storage.value_or(plan::SharedStorage{});
}

double together_GBps(double of_all, double of_node, std::int64_t nodes) {
    const double of_nodes = of_node * static_cast<double>(nodes);
    return of_all > 0 ? std::min(of_all, of_nodes) : of_nodes;
}

double seconds_of(double bytes, double GBps) {
    return bytes / (GBps * 1e9);
}

struct Summary {
    double wall_s = 0, low_s = 0, high_s = 0, failures = 0;
    std::array<double, kRunAccounts> seconds{};
    std::size_t unended = 0;

    double effective() const {
        return seconds[static_cast<std::size_t>(RunAccount::steps)] / wall_s;
    }
};

Summary summary_of(const RunModel& model, const GoodputOptions& options) {
    const std::vector<RunOutcome> outcomes = draw_runs(model, options.seed, options.runs);
    Summary summary;
    std::vector<double> walls;
    const auto count = static_cast<double>(outcomes.size());
    for (const RunOutcome& outcome : outcomes) {
        for (std::size_t account = 0; account < kRunAccounts; ++account)
            summary.seconds[account] += outcome.seconds[account] / count;
        summary.failures += static_cast<double>(outcome.failures) / count;
        walls.push_back(outcome.wall_s());
        summary.wall_s += walls.back() / count;
        if (!outcome.ended) ++summary.unended;
    }
    std::sort(walls.begin(), walls.end());
    const auto at = [&](double share) {
        return walls[static_cast<std::size_t>(share * (count - 1) + 0.5)];
    };
    summary.low_s = at(0.05);
    summary.high_s = at(0.95);
    return summary;
}

struct Change {
    const char* what;
    bool (*applies)(const RunModel&);
    void (*change)(RunModel&);
    bool moves_interval;  // the best interval is another then
};

bool always(const RunModel&) {
    return true;
}

const std::vector<Change>& all_changes() {
    static const std::vector<Change> all = {
        {"failures are half as frequent", always,
         [](RunModel& model) {
             for (RunCause& cause : model.causes)
                 cause.per_s /= 2;
         },
         true},
        {"failures are noticed in half the time", always,
         [](RunModel& model) {
             for (RunCause& cause : model.causes)
                 cause.detection_s /= 2;
         },
         false},
        {"a node at fault is found in half the time", always,
         [](RunModel& model) { model.diagnosis_s /= 2; }, false},
        {"restarts take half as long", always, [](RunModel& model) { model.restart_s /= 2; },
         false},
        {"storage is twice as fast", always,
         [](RunModel& model) {
             model.stall_s -= model.blocking_write_s / 2;
             model.blocking_write_s /= 2;
             model.write_s /= 2;
             model.load_s /= 2;
         },
         true},
        {"checkpoints are written beside training",
         [](const RunModel& model) { return model.blocking_write_s > 0; },
         [](RunModel& model) {
             model.write_s = model.blocking_write_s;
             model.stall_s -= model.blocking_write_s - model.memory_stall_s;
             model.blocking_write_s = 0;
         },
         true},
        {"copies of the states in other nodes' memory every minute",
         [](const RunModel& model) { return model.memory_interval_s == 0; },
         [](RunModel& model) { model.memory_interval_s = 60; }, true},
        {"twice as many spare nodes", always, [](RunModel& model) { model.spare_nodes *= 2; },
         false},
    };
    return all;
}

std::vector<GoodputChange> sensitivity(const Goodput& now, const GoodputOptions& options,
                                       double step_s) {
    std::vector<GoodputChange> changes;
    for (const Change& change : all_changes()) {
        if (!change.applies(now.model)) continue;
        RunModel model = now.model;
        change.change(model);
        if (change.moves_interval && !now.interval_given)
            model.interval_s = best_interval_s(model, step_s);
        const Summary summary = summary_of(model, options);
        changes.push_back(
            {change.what, summary.effective() / now.feed.stretch, summary.wall_s / 86400});
    }
    std::stable_sort(
        changes.begin(), changes.end(),
        [](const GoodputChange& a, const GoodputChange& b) { return a.days < b.days; });
    return changes;
}

}  // namespace

std::int64_t steps_of_run(const plan::Scenario& scenario) {
    const auto per_step = static_cast<double>(scenario.layout.global_batch_size) *
                          static_cast<double>(scenario.training.sequence_length);
    if (scenario.training.tokens > 0)
        return std::max<std::int64_t>(
            1, static_cast<std::int64_t>(std::ceil(scenario.training.tokens / per_step)));
    return scenario.run.steps;
}

CheckpointCost checkpoint_cost(const plan::Scenario& scenario, std::int64_t parameters) {
    const plan::Dims dims = plan::dims_of(scenario);
    // What a step changes: weights, the optimizer's moments, main parameters where they are kept.
    double of_parameter =
        static_cast<double>(plan::size_bytes(dims.dtype) + plan::size_bytes(dims.first_moment) +
                            plan::size_bytes(dims.second_moment));
    if (dims.keeps_masters())
        of_parameter += static_cast<double>(plan::size_bytes(dims.main_parameters));
    const plan::SharedStorage storage = storage_of(scenario);
    const std::int64_t nodes = nodes_of(scenario);
    CheckpointCost cost;
    cost.bytes = of_parameter * static_cast<double>(parameters);
    cost.storage_GBps = together_GBps(storage.write_GBps, storage.node_GBps, nodes);
    cost.write_s = seconds_of(cost.bytes, cost.storage_GBps);
    const double host_GBps = scenario.cluster.host_memory.bandwidth_GBps > 0
                                 ? scenario.cluster.host_memory.bandwidth_GBps
                                 : kHostCopyGBps;
    cost.copy_s = seconds_of(cost.bytes / static_cast<double>(scenario.layout.ranks()), host_GBps);
    // States are shared out by ZeRO, or each copy of the model reads its own.
    const double copies =
        scenario.layout.zero_stage > 0 ? 1 : static_cast<double>(scenario.layout.data_parallel);
    cost.load_s =
        seconds_of(cost.bytes * copies, together_GBps(storage.read_GBps, storage.node_GBps, nodes));
    return cost;
}

DataFeed data_feed(const plan::Scenario& scenario, double tokens_per_s, double tokens) {
    const plan::SharedStorage storage = storage_of(scenario);
    DataFeed feed;
    // The ranks of a tensor, context or pipeline group need the same tokens; those of one node read
    // them once.
    feed.needed_GBps = tokens_per_s * storage.bytes_per_token / 1e9;
    feed.from_storage_GBps = feed.needed_GBps * (1 - storage.cached_share);
    feed.available_GBps = together_GBps(storage.read_GBps, storage.node_GBps, nodes_of(scenario));
    feed.dataset_bytes = tokens * storage.bytes_per_token;
    feed.stretch = std::max(1.0, feed.from_storage_GBps / feed.available_GBps);
    return feed;
}

RunModel run_model(const plan::Scenario& scenario, const CheckpointCost& checkpoint) {
    ORRERY_CHECK(scenario.reliability.has_value(), "nothing is known of failures");
    const plan::Reliability& reliability = *scenario.reliability;
    RunModel model;
    const auto devices = static_cast<double>(scenario.layout.ranks());
    const auto nodes = static_cast<double>(nodes_of(scenario));
    for (const plan::FailureCause& cause : reliability.causes) {
        double units = 1;
        if (cause.of == plan::FailureOf::device) units = devices;
        if (cause.of == plan::FailureOf::node) units = nodes;
        model.causes.push_back(
            {cause.cause, units / (cause.mean_hours * 3600),
             cause.detection_s >= 0 ? cause.detection_s : reliability.detection_s,
             cause.replaces_node, cause.silent, cause.of != plan::FailureOf::run});
    }
    model.rate_log_sd = reliability.rate_spread;
    model.diagnosis_s = reliability.diagnosis_s;
    model.replacement_s = reliability.replacement_s;
    model.restart_s = reliability.restart_s;
    model.load_s = checkpoint.load_s;
    const bool beside = reliability.saving == plan::Saving::asynchronous;
    model.stall_s = reliability.save_overhead_s + (beside ? checkpoint.copy_s : checkpoint.write_s);
    model.write_s = beside ? checkpoint.write_s : 0;
    model.blocking_write_s = beside ? 0 : checkpoint.write_s;
    model.memory_interval_s = reliability.memory_checkpoint_s;
    model.memory_stall_s = checkpoint.copy_s;
    model.memory_load_s = checkpoint.copy_s;
    model.repair_s = reliability.repair_hours * 3600;
    model.spare_nodes =
        reliability.spare_nodes > 0 ? reliability.spare_nodes : spares_rarely_short(model);
    return model;
}

std::int64_t spares_rarely_short(const RunModel& model) {
    double replaced = 0;
    for (const RunCause& cause : model.causes)
        if (cause.replaces_node) replaced += cause.per_s;
    const double sd = model.rate_log_sd;
    const double under_repair =
        replaced * model.repair_s * exp_of(kNineteenIn20 * sd - sd * sd / 2);
    return static_cast<std::int64_t>(std::ceil(under_repair + 2 * std::sqrt(under_repair)));
}

Goodput predict_goodput(const plan::Scenario& scenario, const Prediction& prediction,
                        double degraded_step_s, const GoodputOptions& options) {
    Goodput goodput;
    goodput.steps = steps_of_run(scenario);
    ORRERY_CHECK(goodput.steps > 0 && options.runs > 0, "a run without steps");
    goodput.tokens = static_cast<double>(goodput.steps) *
                     static_cast<double>(prediction.conserved.tokens_per_step);
    goodput.checkpoint = checkpoint_cost(scenario, prediction.conserved.parameters);
    goodput.feed = data_feed(scenario, prediction.throughput.tokens_per_s, goodput.tokens);
    const double step_s = prediction.step.time_s * goodput.feed.stretch;

    RunModel& model = goodput.model;
    model = run_model(scenario, goodput.checkpoint);
    goodput.spares_assumed = scenario.reliability->spare_nodes == 0;
    model.work_s = step_s * static_cast<double>(goodput.steps);
    const Deviation deviation = together(prediction.step.interval_parts);
    model.early = deviation.early;
    model.late = deviation.late;
    if (degraded_step_s > 0) model.degraded_pace = std::min(1.0, step_s / degraded_step_s);
    model.interval_s = model.work_s;
    goodput.best_interval_s = best_interval_s(model, step_s);
    goodput.young_daly_s = young_daly_s(model);
    goodput.interval_given = scenario.run.checkpoint_every_steps > 0;
    model.interval_s = goodput.interval_given
                           ? step_s * static_cast<double>(scenario.run.checkpoint_every_steps)
                           : goodput.best_interval_s;

    const Summary summary = summary_of(model, options);
    if (const double rate = model.failures_per_s(); rate > 0)
        goodput.hours_between_failures = 1 / (rate * 3600);
    goodput.ideal_days = model.work_s / goodput.feed.stretch / 86400;
    goodput.days = summary.wall_s / 86400;
    goodput.low_days = summary.low_s / 86400;
    goodput.high_days = summary.high_s / 86400;
    goodput.effective_fraction = summary.effective() / goodput.feed.stretch;
    goodput.data_s = summary.seconds[static_cast<std::size_t>(RunAccount::steps)] *
                     (1 - 1 / goodput.feed.stretch);
    goodput.failures = summary.failures;
    goodput.seconds = summary.seconds;
    goodput.unended = summary.unended;
    goodput.analytic_days = expected_wall_s(model) / 86400;
    if (summary.unended < options.runs) goodput.changes = sensitivity(goodput, options, step_s);

    const double hours = goodput.days * 24;
    const plan::Cluster& cluster = scenario.cluster;
    const std::int64_t gpus = scenario.layout.ranks();
    goodput.gpu_hours = hours * static_cast<double>(gpus);
    if (const double usd = cluster.usd_per_hour(cluster.devices()); usd > 0)
        goodput.cost_usd = hours * usd;
    if (const double watts = cluster.site_power_w(gpus); watts > 0)
        goodput.energy_mwh = hours * watts / 1e6;
    return goodput;
}

}  // namespace orrery::sim
