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
    std::optional<std::uint64_t> middle;  // of the runs that end
};

// Of those that end; of two in the middle the shorter one.
std::optional<std::uint64_t> middle_of(const std::vector<RunOutcome>& outcomes) {
    std::vector<std::pair<double, std::uint64_t>> ended;
    for (std::size_t i = 0; i < outcomes.size(); ++i)
        if (outcomes[i].ended) ended.emplace_back(outcomes[i].wall_s(), i);
    if (ended.empty()) return std::nullopt;
    const auto middle = ended.begin() + static_cast<std::ptrdiff_t>((ended.size() - 1) / 2);
    std::nth_element(ended.begin(), middle, ended.end());
    return middle->second;
}

Summary summary_of(const RunModel& model, const GoodputOptions& options) {
    const std::vector<RunOutcome> outcomes =
        draw_runs(model, options.seed, options.runs, options.stop);
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
    summary.middle = middle_of(outcomes);
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

// What storage changes is computed anew: rates of checkpoints, of data, and what is between them.
struct StorageChange {
    const char* what;
    bool (*applies)(const Goodput&, const plan::Scenario&);
    void (*change)(plan::SharedStorage&);
};

const std::vector<StorageChange>& all_storage_changes() {
    static const std::vector<StorageChange> all = {
        {"storage is twice as fast", [](const Goodput&, const plan::Scenario&) { return true; },
         [](plan::SharedStorage& storage) {
             storage.node_GBps *= 2;
             storage.read_GBps *= 2;
             storage.write_GBps *= 2;
             storage.reads_per_s *= 2;
             storage.read_latency_ms /= 2;
         }},
        {"the data are on the nodes' disks before training begins",
         [](const Goodput& now, const plan::Scenario& scenario) {
             return now.feed.cold_stretch > now.feed.warm_stretch && now.feed.warming_s == 0 &&
                    scenario.storage->cache != plan::DataCache::none;
         },
         [](plan::SharedStorage& storage) { storage.warming = plan::Warming::from_store; }},
        {"all data are on the nodes' disks",
         [](const Goodput& now, const plan::Scenario& scenario) {
             return now.feed.stretch > 1 && storage_of(scenario).cache == plan::DataCache::none;
         },
         [](plan::SharedStorage& storage) { storage.cached_share = 1; }},
        {"loaders hold eight times as many steps ready",
         [](const Goodput& now, const plan::Scenario& scenario) {
             return now.feed.stretch > 1 && storage_of(scenario).read_jitter > 0;
         },
         [](plan::SharedStorage& storage) { storage.prefetch_steps *= 8; }},
    };
    return all;
}

// What a run is before any is drawn.
struct Prepared {
    CheckpointCost checkpoint;
    DataFeed feed;
    std::optional<CheckpointStorm> storm;
    RunModel model;
    double step_s = 0;
};

Prepared prepared(const plan::Scenario& scenario, const Prediction& prediction,
                  double degraded_step_s) {
    Prepared run;
    const auto steps = static_cast<double>(steps_of_run(scenario));
    const double tokens = steps * static_cast<double>(prediction.conserved.tokens_per_step);
    run.checkpoint = checkpoint_cost(scenario, prediction.conserved.parameters);
    run.feed = data_feed(scenario, prediction.throughput.tokens_per_s, tokens);
    run.step_s = prediction.step.time_s * run.feed.stretch;
    run.model = run_model(scenario, run.checkpoint);
    if (scenario.reliability->saving == plan::Saving::asynchronous) {
        run.storm = checkpoint_storm(scenario, run.feed, run.checkpoint.bytes,
                                     run.checkpoint.storage_GBps, run.step_s);
        run.model.write_s = run.storm->write_s;
        run.model.stall_s += run.storm->starved_s;
    }
    run.model.replacement_s += run.feed.rewarm_s;
    run.model.work_s = run.step_s * steps;
    run.model.data_share = 1 - 1 / run.feed.stretch;
    run.model.warming_s = run.feed.warming_s;
    const Deviation deviation = together(prediction.step.interval_parts);
    run.model.early = deviation.early;
    run.model.late = deviation.late;
    if (degraded_step_s > 0) run.model.degraded_pace = std::min(1.0, run.step_s / degraded_step_s);
    run.model.interval_s =
        scenario.run.checkpoint_every_steps > 0
            ? run.step_s * static_cast<double>(scenario.run.checkpoint_every_steps)
            : run.model.work_s;
    return run;
}

double effective_of(const Summary& summary) {
    return summary.seconds[static_cast<std::size_t>(RunAccount::steps)] / summary.wall_s;
}

std::vector<GoodputChange> sensitivity(const Goodput& now, const plan::Scenario& scenario,
                                       const Prediction& prediction, double degraded_step_s,
                                       const GoodputOptions& options, double step_s) {
    std::vector<GoodputChange> changes;
    const auto add = [&](const char* what, const RunModel& model) {
        const Summary summary = summary_of(model, options);
        changes.push_back({what, effective_of(summary), summary.wall_s / 86400});
    };
    for (const StorageChange& change : all_storage_changes()) {
        if (!change.applies(now, scenario)) continue;
        plan::Scenario changed = scenario;
        changed.storage = storage_of(scenario);
        change.change(*changed.storage);
        Prepared run = prepared(changed, prediction, degraded_step_s);
        // Spares stay as many as there are.
        run.model.spare_nodes = now.model.spare_nodes;
        if (!now.interval_given) run.model.interval_s = best_interval_s(run.model, run.step_s);
        add(change.what, run.model);
    }
    for (const Change& change : all_changes()) {
        if (!change.applies(now.model)) continue;
        RunModel model = now.model;
        change.change(model);
        if (change.moves_interval && !now.interval_given)
            model.interval_s = best_interval_s(model, step_s);
        add(change.what, model);
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

trace::StorageFacts storage_facts(const plan::Scenario& scenario, const Prediction& prediction) {
    trace::StorageFacts facts;
    if (!scenario.storage || !prediction.stuck.empty()) return facts;
    const CheckpointCost checkpoint = checkpoint_cost(scenario, prediction.conserved.parameters);
    const auto tokens = static_cast<double>(std::max<std::int64_t>(1, steps_of_run(scenario)) *
                                            prediction.conserved.tokens_per_step);
    const DataFeed feed = data_feed(scenario, prediction.throughput.tokens_per_s, tokens);
    facts.data_wait_s = (feed.stretch - 1) * prediction.step.time_s;
    facts.save_bytes = checkpoint.bytes;
    facts.save_stall_s = checkpoint.copy_s;
    if (scenario.reliability) *facts.save_stall_s += scenario.reliability->save_overhead_s;
    facts.save_write_s = checkpoint.write_s;
    facts.load_bytes = checkpoint.bytes;
    facts.load_s = checkpoint.load_s;
    return facts;
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
    const Prepared run = prepared(scenario, prediction, degraded_step_s);
    goodput.checkpoint = run.checkpoint;
    goodput.feed = run.feed;
    goodput.storm = run.storm;
    goodput.model = run.model;
    goodput.spares_assumed = scenario.reliability->spare_nodes == 0;
    goodput.interval_given = scenario.run.checkpoint_every_steps > 0;
    RunModel& model = goodput.model;
    goodput.best_interval_s = best_interval_s(model, run.step_s);
    goodput.young_daly_s = young_daly_s(model);
    if (!goodput.interval_given) model.interval_s = goodput.best_interval_s;

    const Summary summary = summary_of(model, options);
    if (const double rate = model.failures_per_s(); rate > 0)
        goodput.hours_between_failures = 1 / (rate * 3600);
    goodput.ideal_days = model.work_s / goodput.feed.stretch / 86400;
    goodput.days = summary.wall_s / 86400;
    goodput.low_days = summary.low_s / 86400;
    goodput.high_days = summary.high_s / 86400;
    goodput.effective_fraction = effective_of(summary);
    goodput.failures = summary.failures;
    goodput.seconds = summary.seconds;
    goodput.unended = summary.unended;
    if (summary.middle) goodput.middle = record_run(model, options.seed, *summary.middle);
    goodput.analytic_days = (expected_wall_s(model) + model.warming_s) / 86400;
    if (summary.unended < options.runs)
        goodput.changes =
            sensitivity(goodput, scenario, prediction, degraded_step_s, options, run.step_s);

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
