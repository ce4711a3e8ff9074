// Trains a scenario in the test's process and keeps what layouts must agree on.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/train/trainer.hpp"
#include "tests/parity/layouts.hpp"
#include "tests/sanitized.hpp"

namespace orrery::parity {

plan::Scenario scenario(const char* text, const Sets& sets);

// Of whole parameters, by full name and element; padding of the vocabulary left out, tied copies
// once.
using Whole = std::map<std::string, std::vector<double>>;

struct Trained {
    std::vector<double> losses;
    std::vector<double> further_losses;  // of multi-token prediction, where the model has it
    std::vector<double> norms;
    std::vector<runtime::Skipped> skipped;
    std::vector<std::vector<std::int64_t>> expert_counts;  // of the first step …
    std::vector<std::int64_t> dropped_rows;                // … as well
    Whole gradients;   // of the first step, after clipping's norm was taken, before any update
    Whole parameters;  // after the last step
    Whole moments;     // "m/" and "v/" before the name; of runs with checkpoints
    // Elements that several ranks hold and that were not the same on all.
    std::string disagreement;  // the first one; empty: none
    runtime::TrainResult result;
};

// Layouts part in the first steps, if they do; `./orrery test --nightly`, which sets
// ORRERY_EVERY_RUN, looks on. Faults of memory show in fewer, and sanitizers make each slow.
inline std::int64_t usual_steps() {
    if (sanitized()) return 4;
    return std::getenv("ORRERY_EVERY_RUN") != nullptr ? 20 : 6;
}

struct RunOptions {
    std::int64_t steps = usual_steps();
    runtime::SampleReader samples;  // empty: random tokens
    runtime::CpuOptions cpu;
    runtime::Backend* backend = nullptr;  // null: the CPU's, by `cpu`
    std::optional<runtime::CheckpointOptions> checkpoint;
    std::function<void(plan::Plan&)> change_plan;
    std::function<void(runtime::StepInputs&)> change_inputs;
    std::function<void(plan::Rank, runtime::Device&, const runtime::BoundProgram&,
                       const plan::Program&, std::int64_t step)>
        after_step;
    std::function<void(const runtime::StepReport&)> stepped;
    // Value of an element of a whole parameter; empty: random.
    std::function<double(const plan::Parameter&, const std::string& name, std::int64_t element)>
        first_weights;
};

// Samples are random tokens, numbered.
Trained train(const plan::Scenario& scenario, const RunOptions& options = {});

// Largest ‖a − b‖_F over max(‖b‖_F, 1e-3·‖all of b‖_F/√tensors) of all tensors, with its name.
struct Difference {
    double relative = 0;
    std::string name;
};
Difference difference(const Whole& a, const Whole& b);

// Of the precision that both trained in: losses of each step and the first one's gradients.
struct Tolerances {
    double loss = 0, gradient = 0;
};
inline constexpr Tolerances kFp64{1e-13, 1e-12}, kFp32{5e-6, 1e-5};

// That both trained the same, bit for bit, alike on all ranks of `run`.
void expect_same_bits(const Trained& run, const Trained& other);

// That a layout trains the model of one rank, alike on all of its ranks, and learns.
void expect_same_training(const Trained& run, const Trained& alone, const Tolerances& within);

}  // namespace orrery::parity
