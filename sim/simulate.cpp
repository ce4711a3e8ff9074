#include <tbb/parallel_invoke.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "plan/assemble/build_plan.hpp"
#include "plan/check.hpp"
#include "sim/chunks.hpp"
#include "sim/cost/expert_load.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "sim/stack_prior.hpp"
#include "sim/stragglers.hpp"
#include "trace/forward_accounts.hpp"

namespace orrery::sim {
namespace {

using KeptEvents = std::vector<std::vector<trace::Event>>;  // by track

// Counts events, and keeps those of the first track of each program where it `keeps` any.
class Counter : public EngineListener {
  public:
    Counter(const trace::Trace& trace, int repetitions, bool keeps)
        : accounts(trace, repetitions), kept(trace.tracks.size()) {
        std::vector<bool> seen(trace.programs.size());
        for (std::size_t t = 0; keeps && t < kept.size(); ++t) {
            const auto program = static_cast<std::size_t>(trace.tracks[t].program);
            if (!seen[program]) kept[t].resize(trace.programs[program].op.size());
            seen[program] = true;
        }
    }
    void ended(TrackId track, std::uint32_t op, std::uint32_t /*number*/,
               const trace::Event& event) override {
        const auto t = static_cast<std::size_t>(track);
        accounts.ended(t, op, event);
        if (!kept[t].empty()) kept[t][op] = event;
    }

    trace::ForwardAccounts accounts;
    KeptEvents kept;
};

void take_events(KeptEvents& events, trace::Trace& trace) {
    for (std::size_t t = 0; t < trace.tracks.size(); ++t)
        trace.tracks[t].events = std::exchange(events[t], {});
}

// Runs the machine with all events; fills these in, the window and the sums.
EngineRun keep_events(const Machine& machine, const std::vector<EngineTrack>& tracks,
                      Prediction& prediction) {
    trace::Trace& trace = prediction.trace;
    EngineResult result = run_engine(machine.input, tracks);
    const StepWindow window = step_window(machine, result);
    trace.step_start = window.start;
    trace.step_end = window.end;
    take_events(result.events, trace);
    if (result.stuck.empty()) prediction.sums = trace::sums_of(trace);
    return {result.processed, std::move(result.stuck)};
}

// The same, and forgets all events but those of the first track of each program, which are left in
// `kept`; null: forgets these too.
EngineRun count_events(const Machine& machine, const std::vector<EngineTrack>& tracks,
                       Prediction& prediction, KeptEvents* kept) {
    trace::Trace& trace = prediction.trace;
    if (machine.following > 0) {  // the window ends before the run does: its events tell where
        EngineRun run = keep_events(machine, tracks, prediction);
        std::vector<bool> seen(trace.programs.size());
        for (trace::Track& track : trace.tracks) {
            const auto program = static_cast<std::size_t>(track.program);
            if (seen[program]) track.events = {};
            seen[program] = true;
        }
        return run;
    }
    Counter counter(trace, machine.repetitions, kept != nullptr);
    EngineRun run = run_engine(machine.input, tracks, counter);
    if (kept != nullptr) *kept = std::move(counter.kept);
    if (!run.stuck.empty()) return run;
    trace.step_start = counter.accounts.step_start();
    trace.step_end = counter.accounts.step_end();
    prediction.sums = counter.accounts.finish();
    return run;
}

// The step in another world, in which ops take another time: how long it is, and what its waiting
// is made of there. Nothing where it never ends.
struct OtherStep {
    Picoseconds length = 0;
    std::vector<trace::Accounts> accounts;  // by track
};
std::optional<OtherStep> step_of(const Machine& machine, const std::vector<EngineTrack>& tracks,
                                 const trace::Trace& like) {
    Prediction other;
    other.trace.ops = like.ops;
    other.trace.programs = like.programs;
    for (const trace::Track& track : like.tracks)
        other.trace.tracks.push_back({track.rank, track.alike, track.program, {}});
    if (!count_events(machine, tracks, other, nullptr).stuck.empty()) return std::nullopt;
    return OtherStep{other.trace.step_end - other.trace.step_start, std::move(other.sums.accounts)};
}

// Steps by which waiting is told apart. They depend on nothing of the step itself, and run beside
// it or each other.
class OtherWorlds {
  public:
    // All must outlive it. `equal_chunks`: whether to ask what is of the schedule alone.
    OtherWorlds(const plan::Plan& plan, const Machine& machine, const trace::Trace& like,
                bool equal_chunks)
        : plan_(plan),
          machine_(machine),
          like_(like),
          equal_chunks_(equal_chunks && plan.mesh.pipeline > 1),
          fullest_(fullest_rank(machine)),
          tracks_(fullest_ > 1 ? balanced_tracks(machine) : machine.input.tracks) {}

    void run() {
        tbb::parallel_invoke([this] { balance_routing(); }, [this] { equalise_chunks(); });
    }

    void part(Prediction& prediction) {
        part_routing(prediction);
        prediction.step.heaviest_chunk = heaviest_;
        if (!equal_) return;
        for (std::size_t t = 0; t < prediction.sums.accounts.size(); ++t)
            leave_to_schedule(equal_->accounts[t][static_cast<std::size_t>(trace::Account::bubble)],
                              prediction.sums.accounts[t]);
    }

  private:
    void balance_routing() {
        if (fullest_ > 1) balanced_ = step_of(machine_, tracks_, like_);
    }

    // Waiting for pipeline peers is of the schedule as far as it is there with chunks that take
    // equally long; what a rank waits beyond that is imbalance.
    void equalise_chunks() {
        if (!equal_chunks_) return;
        const Chunks chunks(plan_, machine_, tracks_);
        heaviest_ = chunks.heaviest();
        if (!heaviest_) return;
        const std::vector<std::vector<double>> factors = chunks.equalising();
        std::vector<EngineTrack> equal = tracks_;
        for (std::size_t t = 0; t < equal.size(); ++t)
            equal[t].factors = &factors[t];
        equal_ = step_of(machine_, equal, like_);
    }

    // All of an expert group wait for the rank that most rows come to: what a step takes longer
    // than if as many came to each is imbalance, and all else is as it is then.
    void part_routing(Prediction& prediction) {
        if (!balanced_) return;
        const Picoseconds length = prediction.trace.step_end - prediction.trace.step_start;
        const Picoseconds added = std::max<Picoseconds>(0, length - balanced_->length);
        prediction.step.routing = {fullest_, to_seconds(added)};
        if (added == 0) return;
        prediction.sums.accounts = std::move(balanced_->accounts);
        for (trace::Accounts& accounts : prediction.sums.accounts)
            accounts[static_cast<std::size_t>(trace::Account::imbalance)] += added;
    }

    const plan::Plan& plan_;
    const Machine& machine_;
    const trace::Trace& like_;
    bool equal_chunks_;
    double fullest_;
    std::vector<EngineTrack> tracks_;  // with as many rows for every rank's experts
    std::optional<OtherStep> balanced_;
    std::optional<HeaviestChunk> heaviest_;
    std::optional<OtherStep> equal_;
};

// What was measured on the very machine leaves nothing of the stack open.
StackPrior prior_of(const SimulateOptions& options, const plan::Framework& framework,
                    const Profile& profile) {
    if (options.costs != nullptr) return {};
    return stack_prior(framework, profile, options.of_fitted_source);
}

// What kernels, links and the stack's own runs say of the step, and what is not known of a stack
// that was never timed on the device.
StepPrediction predict_step(const Prediction& prediction, const IntervalParts& parts) {
    const trace::Trace& trace = prediction.trace;
    StepPrediction step;
    step.heaviest_chunk = prediction.step.heaviest_chunk;
    step.interval_parts = parts;
    step.routing = prediction.step.routing;
    step.dropped_share = prediction.step.dropped_share;
    step.time_s = to_seconds(trace.step_end - trace.step_start);
    const Deviation all = together(parts);
    step.low_s = step.time_s * earliest_share(kCentral90 * all.early);
    step.high_s = step.time_s * (1 + kCentral90 * all.late);
    step.breakdown_s = trace::mean_accounts(trace, prediction.sums);
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

// The mean of the devices that have ranks.
Quantity mean_peak(const Profile& profile, const plan::Scenario& scenario) {
    const std::vector<std::int64_t> devices =
        scenario.cluster.devices_by_kind(scenario.layout.ranks());
    Quantity mean = peak_of(profile, scenario.training.precision);
    if (devices.front() == scenario.layout.ranks()) return mean;
    mean = {};
    for (std::size_t kind = 0; kind < devices.size(); ++kind) {
        if (devices[kind] == 0) continue;
        const Quantity peak = peak_of(profile.of_kind(kind), scenario.training.precision);
        mean.value += peak.value * static_cast<double>(devices[kind]) /
                      static_cast<double>(scenario.layout.ranks());
        mean.source += (mean.source.empty() ? "mean over ranks of " : "; of ") +
                       scenario.cluster.node_kind(kind).device + ": " + peak.source;
    }
    return mean;
}

// What the causal mask takes of a step: of a layer 6·w per token and element of its heads' queries
// and of what comes of them, of unmasked attention, where w is the sequence or the window; of the
// s·w pairs the mask takes w²/2: half of them, where there is no window; of chunks, of each chunk
// half.
double masked_flops(const plan::Scenario& scenario, double tokens) {
    const plan::Model& model = scenario.model;
    double flops = 0;
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
        const plan::SoftmaxAttention& of = model.kinds[kind].attention();
        const auto span = static_cast<double>(plan::attention_span(scenario, of));
        const double attention =
            6.0 * static_cast<double>(model.layers_of(kind) * (of.q_width() + of.context_width())) *
            span * tokens;
        const auto length = static_cast<double>(scenario.training.sequence_length);
        flops += attention * (plan::attends_in_chunks(scenario, of) ? 0.5 : span / length / 2);
    }
    return flops;
}

ThroughputPrediction predict_throughput(const plan::Scenario& scenario,
                                        const plan::Conserved& conserved, const Profile& profile,
                                        double time_s) {
    ThroughputPrediction throughput;
    const double gpus = static_cast<double>(scenario.layout.ranks());
    const Quantity peak = mean_peak(profile, scenario);
    throughput.peak_tflops = peak.value;
    throughput.peak_source = peak.source;
    throughput.tokens_per_s = static_cast<double>(conserved.tokens_per_step) / time_s;
    throughput.tokens_per_s_per_gpu = throughput.tokens_per_s / gpus;
    const double per_gpu = 1e-12 / time_s / gpus;
    throughput.model_tflops_per_gpu = conserved.model_flops_per_step * per_gpu;
    throughput.mfu = throughput.model_tflops_per_gpu / throughput.peak_tflops;
    throughput.mfu_causal =
        (conserved.model_flops_per_step -
         masked_flops(scenario, static_cast<double>(conserved.tokens_per_step))) *
        per_gpu / throughput.peak_tflops;
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
    run.rented_gpu_hours = hours * static_cast<double>(cluster.devices());
    if (const double price = cluster.usd_per_hour(cluster.devices()); price > 0) {
        const std::int64_t nodes =
            (run.gpus + cluster.devices_per_node - 1) / cluster.devices_per_node;
        run.cost_usd = hours * price;
        run.cost_nodes_used_usd = hours * cluster.usd_per_hour(nodes * cluster.devices_per_node);
    }
    if (const double power_w = cluster.site_power_w(run.gpus); power_w > 0)
        run.energy_mwh = hours * power_w / 1e6;
    return run;
}

std::string describe_stuck(const trace::Trace& trace, const EngineRun& result) {
    std::string text;
    for (const StuckTrack& stuck : result.stuck) {
        const trace::Track& track = trace.tracks[static_cast<std::size_t>(stuck.track)];
        const trace::ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
        const trace::OpName& op = trace.ops[program.op[stuck.op]];
        text += "rank " + std::to_string(track.rank) + ": " +
                trace::to_text(program.actions[program.step[stuck.op]]) + " " + op.label + " on " +
                std::string(plan::name(op.stream)) + " waits for " + stuck.waits_for + "\n";
    }
    return text;
}

trace::RunFacts facts_of(const MemoryPrediction& memory, const plan::Cluster& cluster) {
    trace::RunFacts facts;
    for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind) {
        const std::filesystem::path profile(cluster.node_kind(kind).profile_path);
        facts.prices += (kind == 0 ? "profile " : ", ") + profile.filename().string();
    }
    for (const StageMemory& stage : memory.stages) {
        facts.arena_bytes.push_back(stage.arena_bytes);
        facts.other_bytes.push_back(stage.process_bytes);
    }
    return facts;
}

void check_stop(const SimulateOptions& options) {
    if (options.stop != nullptr && options.stop->load()) throw Stopped();
}

}  // namespace

struct SimulatedStep::Running {
    // `whole`: finish() will be called, and what it needs may be made beside the step.
    Running(const plan::Scenario& of_scenario, const Profile& of_profile,
            const SimulateOptions& asked, const std::string& resolved_json, bool whole)
        : scenario(of_scenario), profile(of_profile), options(asked), built(own_plan()) {
        check_stop(options);
        machine = build_machine(plan(), scenario, profile, options.unfolded, options.costs);
        machine.input.stop = options.stop;
        check_stop(options);
        prediction.trace = trace_to_fill(plan(), machine, resolved_json);
        run(whole);
        if (options.costs != nullptr) prediction.prices = price_sources(machine, *options.costs);
    }

    std::optional<plan::Plan> own_plan() const {
        check_stop(options);
        if (options.plan != nullptr) return std::nullopt;
        return plan::build_plan(scenario);
    }
    const plan::Plan& plan() const { return options.plan == nullptr ? *built : *options.plan; }
    bool parts_waiting() const { return options.part_waiting && options.costs == nullptr; }
    SimulateOptions alike() const {  // of the same plan on other clusters
        SimulateOptions of;
        of.plan = &plan();
        of.stop = options.stop;
        return of;
    }

    void run(bool whole) {
        EngineRun of;
        const std::vector<EngineTrack>& tracks = machine.input.tracks;
        const auto run_itself = [&] {
            of = options.keep_trace || options.costs != nullptr
                     ? keep_events(machine, tracks, prediction)
                     : count_events(machine, tracks, prediction, &kept);
        };
        if (parts_waiting() && !scenario.cluster.even())
            tbb::parallel_invoke(
                run_itself, [&] { even = even_step(scenario, profile, alike()); },
                [&] { alone = slowest_alone(scenario, profile, alike()); });
        else if (parts_waiting() && whole)
            tbb::parallel_invoke(run_itself, [&] { run_others(); });
        else
            run_itself();
        prediction.op_events = of.processed;
        prediction.stuck = describe_stuck(prediction.trace, of);
    }

    void run_others() {
        others.emplace(plan(), machine, prediction.trace, !even);
        others->run();
    }

    void part_waiting() {
        if (!others) run_others();
        others->part(prediction);
        prediction.step.dropped_share = ExpertLoads(scenario).dropped_share();
        if (even) part_bubbles(*even, scenario, prediction);
    }

    // Events are packed here: of most steps that a search looks at none are asked for.
    void finish() {
        if (!kept.empty()) take_events(kept, prediction.trace);
        if (prediction.stuck.empty() && parts_waiting()) part_waiting();
        prediction.conserved = plan().conserved;
        prediction.memory = predict_memory(plan(), scenario, profile);
        prediction.trace.facts = facts_of(prediction.memory, scenario.cluster);
        if (!prediction.stuck.empty()) return;
        prediction.communication = trace::communication_sums(prediction.trace, prediction.sums);
        prediction.copies = trace::copy_sums(prediction.trace, prediction.sums);
        const plan::Framework& framework = scenario.training.framework;
        prediction.step =
            predict_step(prediction, interval_parts(prediction, machine, framework, profile,
                                                    prior_of(options, framework, profile)));
        if (even) prediction.step.stragglers = straggler_cost(*even, alone, prediction.step);
        if (options.draws > 0)
            prediction.step.draws = draw_steps(scenario, profile, alike(), options.draws);
        prediction.throughput =
            predict_throughput(scenario, plan().conserved, profile, prediction.step.time_s);
        prediction.run = predict_run(scenario, prediction.throughput.tokens_per_s);
    }

    const plan::Scenario& scenario;
    const Profile& profile;
    SimulateOptions options;
    std::optional<plan::Plan> built;
    Machine machine;
    Prediction prediction;
    KeptEvents kept;  // until finish()
    std::optional<Prediction> even;
    SlowestAlone alone;
    std::optional<OtherWorlds> others;
};

SimulatedStep::SimulatedStep(const plan::Scenario& scenario, const Profile& profile,
                             const SimulateOptions& options, const std::string& resolved_json)
    : running_(std::make_unique<Running>(scenario, profile, options, resolved_json, false)) {}
SimulatedStep::~SimulatedStep() = default;

const Prediction& SimulatedStep::so_far() const {
    return running_->prediction;
}
Picoseconds SimulatedStep::length() const {
    return so_far().trace.step_end - so_far().trace.step_start;
}
Prediction SimulatedStep::finish() {
    running_->finish();
    return std::move(running_->prediction);
}

Prediction simulate(const plan::Scenario& scenario, const Profile& profile,
                    const SimulateOptions& options, const std::string& resolved_json) {
    SimulatedStep::Running running(scenario, profile, options, resolved_json, true);
    running.finish();
    return std::move(running.prediction);
}

}  // namespace orrery::sim
