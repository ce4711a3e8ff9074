#include "cli/run/train_run.hpp"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "calib/fit/this_machine.hpp"
#include "calib/measure/timing.hpp"
#include "cli/machine_failure.hpp"
#include "cli/run/runtime_failures.hpp"
#include "plan/assemble/build_plan.hpp"
#include "runtime/train/checkpointing.hpp"
#include "runtime/train/replica_check.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::cli {
namespace {

constexpr double kTera = 1e12;

// Of this process so far. Not from getrusage: a process that another started has the starter's
// size there.
std::int64_t largest_resident_bytes() {
    constexpr std::int64_t kBytesPerKiB = 1024;
    std::ifstream status("/proc/self/status");
    std::string key;
    while (status >> key)
        if (std::int64_t kibibytes = 0; key == "VmHWM:" && status >> kibibytes)
            return kibibytes * kBytesPerKiB;
    return 0;
}

plan::Diagnostic reason(const char* code, const std::string& file, const char* pointer,
                        std::string message, std::vector<std::string> help) {
    plan::Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.file = file;
    diagnostic.pointer = pointer;
    diagnostic.message = std::move(message);
    diagnostic.help = std::move(help);
    return diagnostic;
}

// Threads of a rank's team: the machine's cores shared out, unless the scenario says.
int threads_of(const plan::Scenario& scenario, const fit::ThisMachine& machine,
               std::int64_t ranks_here) {
    if (scenario.run.threads_per_rank > 0) return static_cast<int>(scenario.run.threads_per_rank);
    return static_cast<int>(fit::threads_of_rank(machine, ranks_here));
}

// A rank on the CPU has as many cores as its team has threads; a profile is of some number of them.
double cores_over_profile(const TrainRun& run, const sim::Profile& profile) {
    if (run.scenario.cluster.intra_node.kind != plan::IntraNodeKind::host) return 1;
    return run.threads_per_rank / profile.hardware.multiprocessors.value;
}

}  // namespace

std::optional<double> TrainRun::mfu(std::int64_t samples, double seconds) const {
    if (!peak_flops_per_s || seconds <= 0) return std::nullopt;
    const double flops = conserved.model_flops_per_step * static_cast<double>(samples) /
                         static_cast<double>(scenario.layout.global_batch_size);
    const double mfu = flops / seconds / *peak_flops_per_s;
    return mfu > 1 ? std::nullopt : std::optional(mfu);
}

std::vector<plan::Diagnostic> reasons_not_to_train(const plan::Scenario& scenario,
                                                   const std::string& file, std::int64_t steps) {
    std::vector<plan::Diagnostic> reasons;
    if (scenario.run.data.empty())
        reasons.push_back(reason("T001", file, "/run/data", "there is nothing to train on",
                                 {"any text file, or a token file of nanoGPT or llm.c: "
                                  "--set run.data=FILE",
                                  "the shipped sample: --set run.data=data/sample.txt"}));
    if (steps == 0 && scenario.run.steps == 0)
        reasons.push_back(reason("T002", file, "/run/steps", "the run has no last step",
                                 {"--steps N, or --set run.steps=N"}));
    return reasons;
}

TrainRun train_run_of(const plan::Scenario& scenario, std::int64_t steps, std::int64_t ranks_here) {
    const plan::Plan plan = plan::build_plan(scenario);
    TrainRun run{scenario};
    run.steps = steps > 0 ? steps : scenario.run.steps;
    const fit::ThisMachine machine = fit::this_machine();
    run.cores = static_cast<int>(machine.cores);
    run.ranks_here = ranks_here > 0 ? ranks_here : scenario.layout.ranks();
    run.threads_per_rank = threads_of(scenario, machine, run.ranks_here);
    run.conserved = plan.conserved;
    for (plan::Rank rank = 0; rank < plan.mesh.ranks(); ++rank)
        run.arenas.push_back(plan.program_of(rank).arena_bytes);
    const sim::Profile profile = sim::load_profiles(scenario.cluster);
    const std::string dtype(plan::name(scenario.training.precision));
    if (const sim::Quantity* peak = profile.hardware.peak(dtype))
        run.peak_flops_per_s = peak->value * kTera * static_cast<double>(scenario.layout.ranks()) *
                               cores_over_profile(run, profile);
    return run;
}

std::vector<std::int64_t> other_bytes_by_rank(const std::vector<runtime::RankMemory>& memory) {
    std::int64_t process = largest_resident_bytes();
    for (const runtime::RankMemory& rank : memory)
        process -= rank.arena_bytes;
    const auto ranks = static_cast<std::int64_t>(memory.size());
    std::vector<std::int64_t> other;
    for (const runtime::RankMemory& rank : memory)
        other.push_back(rank.device_bytes_in_use >= 0 ? rank.device_bytes_in_use - rank.arena_bytes
                                                      : std::max<std::int64_t>(0, process) / ranks);
    return other;
}

std::string Placement::rank_name() const {
    return std::string(runtime::backend_named(backend).rank_name);
}

namespace {

class NoOutput : public TrainOutput {
  public:
    void started(const TrainRun&) override {}
    void stepped(const TrainRun&, const runtime::StepReport&) override {}
    void resumed(const TrainRun&, const runtime::CheckpointReader&,
                 const runtime::ResumptionReport&) override {}
    void checkpointed(const TrainRun&, const runtime::CheckpointReport&) override {}
    void interval_chosen(const TrainRun&, const runtime::IntervalChoice&) override {}
    void noticed(const TrainRun&, const runtime::HealthNotice&) override {}
    void ended(const TrainRun&, const TrainEnd&) override {}
    void ended_before(const TrainRun&) override {}
    void failed(const TrainFailure&) override {}
    void refused(const std::vector<plan::Diagnostic>&) override {}
};

}  // namespace

std::unique_ptr<TrainOutput> no_output() {
    return std::make_unique<NoOutput>();
}

namespace {

trace::StorageFacts storage_of(const TrainEnd& end) {
    trace::StorageFacts facts;
    facts.data_wait_s = end.steps.data_wait_s();
    if (!end.checkpoints.empty()) {
        const auto of_all = [&](auto value) {
            std::vector<double> values;
            for (const runtime::CheckpointReport& report : end.checkpoints)
                values.push_back(static_cast<double>(report.*value));
            return measure::median(std::move(values));
        };
        facts.save_bytes = of_all(&runtime::CheckpointReport::bytes);
        facts.save_stall_s = of_all(&runtime::CheckpointReport::stall_s);
        facts.save_write_s = of_all(&runtime::CheckpointReport::write_s);
    }
    if (end.resumption) {
        facts.load_bytes = static_cast<double>(end.resumption->bytes);
        facts.load_s = end.resumption->load_s;
    }
    return facts;
}

}  // namespace

trace::RunFacts facts_of(const TrainRun& run, const TrainEnd& end) {
    trace::RunFacts facts;
    facts.backend = run.placement.backend;
    facts.ranks_per_device = run.placement.ranks_per_gpu;
    for (const runtime::RankMemory& rank : end.memory) {
        facts.arena_bytes.push_back(rank.arena_bytes);
        facts.high_water_bytes.push_back(rank.high_water_bytes);
    }
    facts.other_bytes = end.other_bytes;
    facts.step_times_s = end.steps.times_s();
    facts.storage = storage_of(end);
    return facts;
}

TrainFailure failure_of(const std::exception& error) {
    if (const auto refused = machine_failure(error)) {
        TrainFailure failure(refused->message);
        failure.exit_code = refused->exit_code;
        return failure;
    }
    TrainFailure failure(error.what());
    failure.exit_code = exit_code_of(error, runtime_failures());
    if (const auto* replica = dynamic_cast<const runtime::ReplicaError*>(&error))
        failure.rank = replica->odd_rank();
    if (const auto* damaged = dynamic_cast<const runtime::DamagedCheckpoint*>(&error))
        failure.damaged_checkpoint = damaged->step();
    return failure;
}

double tokens_per_s(const runtime::StepReport& step) {
    return step.time_s > 0 ? static_cast<double>(step.tokens) / step.time_s : 0;
}

}  // namespace orrery::cli
