// A training run: ranks, each performing its program step after step, on whatever backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/ir/training.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/train/agreement.hpp"
#include "runtime/train/backend.hpp"
#include "runtime/train/batch_plans.hpp"
#include "runtime/train/checkpointing.hpp"
#include "runtime/train/model_state.hpp"
#include "runtime/train/sample_feed.hpp"
#include "trace/trace.hpp"

namespace orrery::runtime {

// Why a step changed nothing.
enum class Skipped : std::uint8_t { no, overflow, loss_spike };

// One step, as all ranks together saw it.
struct StepReport {
    std::int64_t step = 0;
    double loss = 0;  // mean over the valid tokens of the global batch, before the update
    // Likewise of multi-token prediction, uncounted in `loss`; where the model has it.
    std::optional<double> mtp_loss;
    std::optional<double> grad_norm;  // before clipping; where the plan clips
    double learning_rate = 0;
    std::optional<double> loss_scale;  // that the step used
    Skipped skipped = Skipped::no;
    std::int64_t samples = 0;  // sequences of the step …
    std::int64_t tokens = 0;
    std::int64_t consumed_samples = 0;  // … and of the run so far
    double time_s = 0;                  // from the start of the step to the start of the next
    double data_wait_s = 0;             // of that, until the last rank had read its samples
    // Of that, by rank, how long its compute ops ran; empty where devices do not time ops.
    std::vector<double> computed_s;
    // How often each expert was chosen, in a row for each layer of experts; empty where there is
    // none or the device does not count.
    std::vector<std::vector<std::int64_t>> expert_counts;
    std::vector<std::int64_t> dropped_rows;  // of each such layer: for which no expert had capacity

    // Loss and norm are numbers.
    bool is_finite() const;
};

// What a rank held, for comparison with what was planned.
struct RankMemory {
    std::int64_t arena_bytes = 0;
    std::int64_t high_water_bytes = 0;  // end of the last tensor that was bound
    // Of the device's memory, by anyone, at the end; −1: the device has none of its own.
    std::int64_t device_bytes_in_use = -1;
};

struct TrainOptions {
    std::int64_t steps = 0;      // number of the last step
    bool record = false;         // keep the last step's times
    FirstWeights first_weights;  // empty: random_weights
    std::string offload_path;    // folder of what a plan keeps on disk
    std::optional<CheckpointOptions> checkpoint;
    // Replicas are compared after every so many steps, and before a checkpoint; 0: never.
    std::int64_t verify_replicas_every_steps = 0;
    RunStatement statement;  // that ranks which are processes must agree in
    // A step that was taken with a loss or a norm that is no number ends the run: NotFiniteError.
    bool ends_where_not_finite = false;
    // On rank 0, before the first step: hosts by rank.
    std::function<void(const std::vector<std::string>& hosts)> met;
    // For tests: changes the plan that is performed or what a step is told, and sees each rank's
    // device after a step: of steps that run on, when all of it has ended, on the thread that
    // communicates, with the program of the step's turn.
    std::function<void(plan::Plan&)> change_plan;
    std::function<void(StepInputs&)> change_inputs;
    std::function<void(plan::Rank, Device&, const BoundProgram&, const plan::Program&,
                       std::int64_t step)>
        after_step;
};

// Complete in the process that has rank 0; the others know their own ranks' steps.
struct TrainResult {
    plan::Plan plan;
    std::vector<RankMemory> memory;          // by rank
    std::vector<std::vector<OpTime>> times;  // of the last step, by rank; if recorded
};

// `plan_of` is asked for each size of the batch that the run comes to, once. Every step is reported
// on a thread of rank 0, one after another, once it has ended on all ranks; false ends the run
// after it, or after the steps that have begun meanwhile. Throws what ended the run:
// CommunicationError, DataError, ReplicaError, …
TrainResult train(const plan::TrainingFacts& facts, const PlanOfBatch& plan_of,
                  const TrainOptions& options, Backend& backend, const SampleReader& samples,
                  const std::function<bool(const StepReport&)>& report);

}  // namespace orrery::runtime
