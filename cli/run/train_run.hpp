// What `orrery train` knows of a run before its first step and after its last one, for whoever
// prints it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/console.hpp"
#include "cli/run/step_summary.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/scenario.hpp"
#include "runtime/backends/registry.hpp"
#include "runtime/launch/binding.hpp"
#include "runtime/train/health.hpp"
#include "runtime/train/trainer.hpp"
#include "trace/trace.hpp"

namespace orrery::cli {

// Where a run is performed.
struct Placement {
    std::string backend{runtime::backends().front().name};
    int ranks_per_gpu = 1;  // more than one: results are right, times say nothing

    // "CPU rank", "CUDA rank".
    std::string rank_name() const;
    bool on_host() const { return runtime::backend_named(backend).on_host; }
};

struct TrainRun {
    const plan::Scenario& scenario;
    Placement placement = {};
    std::string resolved_json = {};
    std::int64_t steps = 0;       // number of the last one
    std::int64_t ranks_here = 1;  // on this machine
    int threads_per_rank = 1;
    int cores = 1;
    runtime::Binding binding = {};  // of ranks of this machine to cores, as the backend has made it
    plan::Conserved conserved = {};               // of a step of the whole batch
    std::vector<std::int64_t> arenas = {};        // bytes by rank, of the whole batch's plan
    std::optional<double> peak_flops_per_s = {};  // of all ranks, where the profile has one
    std::int64_t data_tokens = 0;
    std::string data_content = {};  // TokenSource::content_sample
    std::int64_t samples_per_epoch = 0;

    // Whether more threads of ranks are here than cores.
    bool ranks_take_turns() const {
        return placement.on_host() && ranks_here * threads_per_rank > cores;
    }

    // Model FLOPs over the peak, of so many sequences in so many seconds; nothing where they are
    // more than the peak, which then is none of this machine.
    std::optional<double> mfu(std::int64_t samples, double seconds) const;
};

// Why this scenario cannot be trained here, all reasons at once; codes T001 and on.
std::vector<plan::Diagnostic> reasons_not_to_train(const plan::Scenario& scenario,
                                                   const std::string& file, std::int64_t steps);

// `steps`: of the command line, 0: the scenario's; `ranks_here`: on this machine, 0: all. Throws
// sim::ProfileError. Data is not looked at.
TrainRun train_run_of(const plan::Scenario& scenario, std::int64_t steps,
                      std::int64_t ranks_here = 0);

class TrainOutput;

// The step as it was predicted, with its central 90 %, and the profile's file; or why it was not.
struct StepForecast {
    double time_s = 0, low_s = 0, high_s = 0;
    std::string profile;
    std::string why_none = {};
};

struct TrainEnd {
    const StepSummary& steps;                        // of at least one
    const std::vector<runtime::RankMemory>& memory;  // by rank
    std::vector<std::int64_t> other_bytes;           // by rank
    bool interrupted = false;
    std::optional<StepForecast> forecast = {};  // of ranks on cores of this computer
    std::optional<runtime::ResumptionReport> resumption = {};
    std::vector<runtime::CheckpointReport> checkpoints = {};
};

// By rank: of the device's memory what is in use beside the arena; where ranks are threads of this
// process, the largest that it has been, less all arenas, shared out.
std::vector<std::int64_t> other_bytes_by_rank(const std::vector<runtime::RankMemory>& memory);

// What a measured trace says of its run.
trace::RunFacts facts_of(const TrainRun& run, const TrainEnd& end);

double tokens_per_s(const runtime::StepReport& step);

// Where a run begins: with a checkpoint, if there is one, or that of a step, which must be there.
struct Resumption {
    bool asked = false;
    std::int64_t step = 0;  // 0: the newest
};

// How the run is to be saved, and gone on with; nullopt where the scenario does not say. What
// resuming finds is told to both.
std::optional<runtime::CheckpointOptions> checkpoint_options(const TrainRun& run,
                                                             const Resumption& resumption,
                                                             TrainOutput& output, Console& console);

// What ended a run, and where that is known, what it was about.
struct TrainFailure {
    TrainFailure(std::string said) : message(std::move(said)) {}
    std::string message;
    std::optional<int> exit_code;                    // that the program ends with
    std::optional<plan::Rank> rank;                  // that is to blame
    std::optional<std::int64_t> damaged_checkpoint;  // its step
};
TrainFailure failure_of(const std::exception& error);

// Sees a run as it goes on. All calls come one after the other.
class TrainOutput {
  public:
    virtual ~TrainOutput() = default;
    virtual void started(const TrainRun& run) = 0;
    virtual void stepped(const TrainRun& run, const runtime::StepReport& step) = 0;
    virtual void resumed(const TrainRun& run, const runtime::CheckpointReader& checkpoint,
                         const runtime::ResumptionReport& report) = 0;
    virtual void checkpointed(const TrainRun& run, const runtime::CheckpointReport& report) = 0;
    virtual void interval_chosen(const TrainRun& run, const runtime::IntervalChoice& choice) = 0;
    virtual void noticed(const TrainRun& run, const runtime::HealthNotice& notice) = 0;
    virtual void ended(const TrainRun& run, const TrainEnd& end) = 0;
    // What was resumed had all its steps.
    virtual void ended_before(const TrainRun& run) = 0;
    // The run, or its preparation, has ended with this; whoever calls says so on console.err.
    virtual void failed(const TrainFailure& failure) = 0;
    virtual void refused(const std::vector<plan::Diagnostic>& reasons) = 0;
};

// For people: header and summary on console.out, progress on console.err.
std::unique_ptr<TrainOutput> train_progress(const Console& console);

// For ranks other than the first, which tell nobody but through it.
std::unique_ptr<TrainOutput> no_output();

// For programs: one JSON object per line on console.out, flushed. Keys are a contract:
// docs/train.md. Each after `mark`, which tells them from other lines.
std::unique_ptr<TrainOutput> train_events(const Console& console, std::string mark = "");

// Passes all on to each, one call at a time, whichever thread it comes from.
std::unique_ptr<TrainOutput> train_outputs(std::vector<std::unique_ptr<TrainOutput>> outputs);

}  // namespace orrery::cli
