// How fast a step is planned and simulated, on the two large shipped runs:
//   GPT-3 175B on 1,024 A100: tensor 8, pipeline 8, data 16, 96 micro-batches, full recomputation
//   Llama 3.1 405B on 16,384 H100: tensor 8, pipeline 16, data 128, 16 micro-batches
// Items are op events. Each iteration checks what it computed: the step takes time, every op of
// every track has run, and no rank is stuck. Then the first run without recomputation on every rank
// for itself, a step of 64 stages as a graph of actions, and a step of 131,072 ranks of which ten
// are slow.
#include <benchmark/benchmark.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"

namespace orrery {
namespace {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
const char* const kRuns[] = {"gpt3-175b-a100x1024", "llama3.1-405b-h100x16384"};

struct Run {
    plan::Scenario scenario;
    std::string resolved;
    sim::Profile profile;
    plan::Plan plan;
};

const Run& run_of(const benchmark::State& state) {
    static std::map<std::int64_t, Run> runs;
    const auto found = runs.find(state.range(0));
    if (found != runs.end()) return found->second;
    const std::string path = kLibrary + "/runs/" + kRuns[state.range(0)] + ".json";
    plan::ReadResult read = plan::read_scenario(path, {}, kLibrary);
    if (!read.scenario) throw std::runtime_error(plan::format_text(read.errors));
    Run run{*read.scenario, read.resolved_json, {}, {}};
    run.profile = sim::load_profiles(run.scenario.cluster);
    run.plan = plan::build_plan(run.scenario);
    return runs[state.range(0)] = std::move(run);
}

// Op events of one rank of each class.
std::uint64_t folded_ops(const sim::Machine& machine) {
    std::uint64_t ops = 0;
    for (const sim::EngineTrack& track : machine.input.tracks)
        ops += machine.input.linked[static_cast<std::size_t>(track.program)].size();
    return ops;
}

void describe(benchmark::State& state, const Run& run, std::uint64_t ops) {
    state.SetItemsProcessed(static_cast<std::int64_t>(ops) *
                            static_cast<std::int64_t>(state.iterations()));
    state.SetLabel(run.scenario.model.name + ", " + std::to_string(run.scenario.layout.ranks()) +
                   " ranks, " + std::to_string(run.scenario.model.layers) + " layers, " +
                   std::to_string(run.plan.micro_batches) + " micro-batches, " +
                   std::to_string(ops) + " op events");
}

void BM_BuildPlan(benchmark::State& state) {
    const Run& run = run_of(state);
    for (auto _ : state) {
        const plan::Plan plan = plan::build_plan(run.scenario);
        if (!(plan == run.plan)) state.SkipWithError("two builds of one plan differ");
    }
    std::uint64_t ops = 0;
    for (const plan::Program& program : run.plan.programs)
        ops += plan::link(run.plan, program).size();
    describe(state, run, ops);
}

void BM_LinkPlan(benchmark::State& state) {
    const Run& run = run_of(state);
    std::uint64_t ops = 0;
    for (auto _ : state) {
        ops = 0;
        for (const plan::Program& program : run.plan.programs)
            ops += plan::link(run.plan, program).size();
        if (ops == 0) state.SkipWithError("no ops");
    }
    describe(state, run, ops);
}

void BM_Engine(benchmark::State& state) {
    const Run& run = run_of(state);
    const sim::Machine machine = sim::build_machine(run.plan, run.scenario, run.profile, false);
    const std::uint64_t ops = folded_ops(machine);
    for (auto _ : state) {
        const sim::EngineResult result = run_engine(machine.input);
        if (!result.stuck.empty()) state.SkipWithError("stuck");
        if (result.processed != ops) state.SkipWithError("not every op has run");
    }
    describe(state, run, ops);
}

void BM_Simulate(benchmark::State& state) {
    const Run& run = run_of(state);
    const std::uint64_t ops =
        folded_ops(sim::build_machine(run.plan, run.scenario, run.profile, false));
    for (auto _ : state) {
        const sim::Prediction prediction =
            sim::simulate(run.scenario, run.profile, {}, run.resolved);
        if (!prediction.stuck.empty() || !(prediction.step.time_s > 0))
            state.SkipWithError("no step time");
        if (prediction.op_events != ops) state.SkipWithError("not every op has run");
    }
    describe(state, run, ops);
}

struct Ignoring : sim::EngineListener {
    void ended(sim::TrackId /*track*/, std::uint32_t /*op*/, std::uint32_t /*number*/,
               const trace::Event& /*event*/) override {}
};

// The engine alone: no event is kept.
void BM_EngineForgetting(benchmark::State& state) {
    const Run& run = run_of(state);
    const sim::Machine machine = sim::build_machine(run.plan, run.scenario, run.profile, false);
    const std::uint64_t ops = folded_ops(machine);
    for (auto _ : state) {
        Ignoring ignoring;
        if (run_engine(machine.input, ignoring).processed != ops)
            state.SkipWithError("not every op has run");
    }
    describe(state, run, ops);
}

Run run_with(const std::vector<std::string>& sets) {
    const std::string path = kLibrary + "/runs/" + kRuns[0] + ".json";
    plan::ReadResult read = plan::read_scenario(path, sets, kLibrary);
    if (!read.scenario) throw std::runtime_error(plan::format_text(read.errors));
    Run run{*read.scenario, read.resolved_json, {}, {}};
    run.profile = sim::load_profiles(run.scenario.cluster);
    run.plan = plan::build_plan(run.scenario);
    return run;
}

// From the scenario to the prediction, every rank for itself, no trace kept.
void BM_SimulateUnfolded(benchmark::State& state) {
    const Run run = run_with({"layout.recompute=none"});
    const double folded_s = sim::simulate(run.scenario, run.profile, {}, run.resolved).step.time_s;
    std::uint64_t ops = 0;
    for (auto _ : state) {
        const sim::Prediction prediction =
            sim::simulate(run.scenario, run.profile, {true, nullptr, false}, run.resolved);
        ops = prediction.op_events;
        if (prediction.step.time_s != folded_s) state.SkipWithError("not the folded step");
    }
    describe(state, run, ops);
}

// Llama 3.1 405B on 131,072 H100 (tensor 8, pipeline 16, data 1,024, 16 micro-batches), all alike
// or with ten slow devices in ten pipelines: from the scenario to the step, what they cost
// included, which simulates the even step besides.
void BM_SimulateStragglers(benchmark::State& state) {
    const std::string path = kLibrary + "/runs/" + kRuns[1] + ".json";
    std::vector<std::string> sets = {"cluster.nodes=16384", "layout.data_parallel=1024",
                                     "layout.global_batch_size=16384"};
    std::string slow;
    for (std::int64_t i = 0; i < state.range(0); ++i)
        slow += (i == 0 ? "" : ", ") + std::string(R"({"device": )") +
                std::to_string(1234 + 12'347 * i) + R"(, "factor": 1.)" +
                std::to_string(1 + i % 3) + "}";
    sets.push_back("cluster.slow_devices=[" + slow + "]");
    const plan::ReadResult read = plan::read_scenario(path, sets, kLibrary);
    if (!read.scenario) throw std::runtime_error(plan::format_text(read.errors));
    const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
    sim::SimulateOptions options;
    options.keep_trace = false;
    std::size_t classes = 0;
    for (auto _ : state) {
        const sim::Prediction prediction =
            sim::simulate(*read.scenario, profile, options, read.resolved_json);
        const auto& cost = prediction.step.stragglers;
        if (cost.has_value() != (state.range(0) > 0)) state.SkipWithError("no cost");
        if (cost && !(prediction.step.time_s > cost->even_s))
            state.SkipWithError("they cost nothing");
        classes = prediction.trace.tracks.size();
    }
    state.SetLabel("131072 ranks, " + std::to_string(state.range(0)) + " slow, " +
                   std::to_string(classes) + " classes");
}

BENCHMARK(BM_BuildPlan)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LinkPlan)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Engine)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EngineForgetting)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SimulateUnfolded)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_SimulateStragglers)->Arg(0)->Arg(1)->Arg(10)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Simulate)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
