#include <algorithm>
#include <cmath>

#include "plan/build/build_plan.hpp"
#include "plan/ir/check.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "trace/describe_plan.hpp"

namespace orrery::sim {
namespace {

trace::Trace make_trace(const plan::Plan& plan, Machine& machine, EngineResult& result,
                        const std::string& resolved_json) {
    trace::Trace trace = trace::describe_plan(plan, std::move(machine.input.linked));
    trace.scenario_json = resolved_json;
    const StepWindow window = step_window(machine, result);
    trace.step_start = window.start;
    trace.step_end = window.end;
    for (std::size_t t = 0; t < machine.classes.members.size(); ++t) {
        const Classes::Member& member = machine.classes.members[t];
        trace.tracks.push_back({member.rank, member.represents, machine.input.tracks[t].program,
                                std::move(result.events[t])});
    }
    return trace;
}

// Central 90 % of the step: the residuals of what the step is made of, those of one family taken as
// one common error, families as independent. Waiting scales with what is waited for, so the share
// of each family is taken of the busy time.
double relative_deviation(const trace::Trace& trace, const Machine& machine) {
    std::array<double, kCostFamilies> weighted{};
    double busy = 0;
    const auto sums = trace::communication_sums(trace);
    const auto copies = trace::copy_sums(trace);
    const auto exposed = [](const trace::CommunicationSums& sum) {
        return sum.busy_s > 0 ? std::min(1.0, sum.exposed_s / sum.busy_s) : 0;
    };
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        const trace::Track& track = trace.tracks[t];
        const auto& ops = trace.programs[static_cast<std::size_t>(track.program)].op;
        const double ranks = static_cast<double>(track.represents);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            const Price& price = machine.table_of[t]->prices[ops[i]];
            const trace::OpName& op = trace.ops[ops[i]];
            double seconds = price.seconds * ranks;
            if (plan::is_communication(op.kind))  // only what compute waited for counts
                seconds *=
                    exposed(sums[static_cast<std::size_t>(trace::exposed_account(op.group))]);
            if (plan::is_copy(op.kind)) seconds *= exposed(copies[trace::copy_index(op.kind)]);
            busy += seconds;
            weighted[static_cast<std::size_t>(price.family)] += seconds * price.relative_sd;
        }
    }
    double variance = 0;
    for (double family : weighted)
        variance += busy > 0 ? (family / busy) * (family / busy) : 0;
    return std::sqrt(variance);
}

// 90 % of a normal distribution lie within this many standard deviations.
constexpr double kCentral90 = 1.6448536269514722;

StepPrediction predict_step(const trace::Trace& trace, double relative_sd) {
    StepPrediction step;
    step.time_s = to_seconds(trace.step_end - trace.step_start);
    step.low_s = step.time_s * std::max(0.0, 1 - kCentral90 * relative_sd);
    step.high_s = step.time_s * (1 + kCentral90 * relative_sd);
    step.breakdown_s = trace::mean_accounts(trace);
    step.bubble_fraction =
        step.breakdown_s[static_cast<std::size_t>(trace::Account::bubble)] / step.time_s;
    return step;
}

// A datasheet without fp16 is taken to mean bf16's rate, and the source says so.
Quantity peak_of(const Profile& profile, plan::Precision precision) {
    const std::string dtype(plan::name(precision));
    if (const Quantity* peak = profile.hardware.peak(dtype)) return *peak;
    const Quantity* other = profile.hardware.peak("bf16");
    if (precision != plan::Precision::fp16 || other == nullptr)
        throw ProfileError(profile.path + ": /hardware/peak_tflops has no " + dtype);
    return {other->value, "of bf16, the profile has none of fp16: " + other->source};
}

ThroughputPrediction predict_throughput(const plan::Scenario& scenario,
                                        const plan::Conserved& conserved, const Profile& profile,
                                        double time_s) {
    ThroughputPrediction throughput;
    const double gpus = static_cast<double>(scenario.layout.ranks());
    const Quantity peak = peak_of(profile, scenario.training.precision);
    throughput.peak_tflops = peak.value;
    throughput.peak_source = peak.source;
    throughput.tokens_per_s = static_cast<double>(conserved.tokens_per_step) / time_s;
    throughput.tokens_per_s_per_gpu = throughput.tokens_per_s / gpus;
    const double per_gpu = 1e-12 / time_s / gpus;
    throughput.model_tflops_per_gpu = conserved.model_flops_per_step * per_gpu;
    throughput.mfu = throughput.model_tflops_per_gpu / throughput.peak_tflops;
    // 12·L·heads·head_dim·w per token of unmasked attention, where w is the sequence or the window.
    // Of the s·w pairs the causal mask takes w²/2: half of them, where there is no window.
    const plan::Model& model = scenario.model;
    const auto span = static_cast<double>(plan::attention_span(scenario));
    const double attention = 12.0 *
                             static_cast<double>(model.layers * model.heads * model.head_dim) *
                             span * static_cast<double>(conserved.tokens_per_step);
    const double masked = span / static_cast<double>(scenario.training.sequence_length) / 2;
    throughput.mfu_causal =
        (conserved.model_flops_per_step - attention * masked) * per_gpu / throughput.peak_tflops;
    throughput.hfu = conserved.hardware_flops_per_step * per_gpu / throughput.peak_tflops;
    return throughput;
}

RunPrediction predict_run(const plan::Scenario& scenario, double tokens_per_s) {
    RunPrediction run;
    const plan::Cluster& cluster = scenario.cluster;
    run.gpus = scenario.layout.ranks();
    run.idle_gpus = cluster.devices() - run.gpus;
    if (scenario.training.tokens <= 0) return run;
    const double hours = scenario.training.tokens / tokens_per_s / 3600;
    run.days = hours / 24;
    run.gpu_hours = hours * static_cast<double>(run.gpus);
    if (cluster.price_usd_per_gpu_hour > 0)
        run.cost_usd = *run.gpu_hours * cluster.price_usd_per_gpu_hour;
    if (cluster.power_w_per_gpu > 0)
        run.energy_mwh = *run.gpu_hours * cluster.power_w_per_gpu * cluster.pue / 1e6;
    return run;
}

std::string describe_stuck(const trace::Trace& trace, const EngineResult& result) {
    std::string text;
    for (const StuckTrack& stuck : result.stuck) {
        const trace::Track& track = trace.tracks[static_cast<std::size_t>(stuck.track)];
        const trace::ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
        const trace::OpName& op = trace.ops[program.op[stuck.op]];
        text += "rank " + std::to_string(track.rank) + ": " +
                program.actions[program.step[stuck.op]] + " " + op.label + " on " +
                std::string(plan::name(op.stream)) + " waits for " + stuck.waits_for + "\n";
    }
    return text;
}

}  // namespace

Prediction simulate(const plan::Scenario& scenario, const Profile& profile,
                    const SimulateOptions& options, const std::string& resolved_json) {
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = build_machine(plan, scenario, profile, options.unfolded, options.costs);
    EngineResult result = run_engine(machine.input);

    Prediction prediction;
    prediction.conserved = plan.conserved;
    prediction.op_events = result.processed;
    if (options.costs != nullptr) prediction.prices = price_sources(machine, *options.costs);
    prediction.trace = make_trace(plan, machine, result, resolved_json);
    prediction.stuck = describe_stuck(prediction.trace, result);
    prediction.memory = predict_memory(plan, scenario, profile);
    if (!prediction.stuck.empty()) return prediction;
    prediction.step = predict_step(prediction.trace, relative_deviation(prediction.trace, machine));
    prediction.throughput =
        predict_throughput(scenario, plan.conserved, profile, prediction.step.time_s);
    prediction.communication = trace::communication_sums(prediction.trace);
    prediction.copies = trace::copy_sums(prediction.trace);
    prediction.run = predict_run(scenario, prediction.throughput.tokens_per_s);
    return prediction;
}

}  // namespace orrery::sim
