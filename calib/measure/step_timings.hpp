// Kernels and collectives timed where they run: in whole steps of small models that the runtime
// performs, with the operands as the op before left them and threads that have to be woken. What a
// kernel takes alone, called again and again, is not what it takes there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calib/fit/collectives.hpp"
#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/fit_memory.hpp"
#include "calib/measure/disturbance.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::measure {

// Models of one layer for each stage, GPT and Llama in turn, sizes drawn log-uniformly.
struct StepGrid {
    int models = 12;                                  // in each layout
    std::int64_t least_width = 64, most_width = 512;  // of the hidden state
    std::int64_t least_sequence = 32, most_sequence = 256;
    std::int64_t least_vocabulary = 128, most_vocabulary = 4096;
    std::int64_t steps = 4;                    // of which the last one counts
    std::int64_t micro_batches = 5;            // an odd number: the median is one of them
    std::vector<std::int64_t> head_dims = {};  // in turn; none: as width and number of heads give
    std::string precision = "fp32";
    std::string fp8_recipe = {};              // with the precision "fp8"
    int round = 0, rounds = 1;                // of the models, every so many-th from this one
    SampleCount* count = nullptr;             // null: steps that others disturb count too
    std::function<bool()> in_time = nullptr;  // models are left out once it is not; null: none are
};

// A step of `ranks` ranks, less the collectives that nothing hid, over what its kernels take by the
// rows of the step with all ranks: how far sharing the machine and waiting for each other stretch
// kernels.
struct SharingRow {
    std::int64_t ranks = 0;
    double stretch = 1;
};

// A row is the median over an op's runs in the step (its micro-batches), the mean over the ranks.
struct StepTimings {
    std::vector<fit::MemoryRow> memory;  // kernel: plan::name of its kind
    std::vector<fit::GemmRow> gemm;
    std::vector<fit::AttentionRow> attention, attention_backward;  // causal, over all keys
    // From when the last rank was ready to when those that waited went on (step_communication.hpp),
    // of what compute went on beside from when its last thread came to its end;
    // `exchange` is a message between two stages of a pipeline.
    std::vector<fit::CollectiveSample> collectives;
    std::vector<SharingRow> sharing;
};

// All of `ranks` are busy at once: data parallel, and tensor (with and without sequence) and
// sharded data parallel over each divisor of their number, and pipelines of two. Steps of fewer
// ranks, data parallel, say only how kernels share the machine. `scenarios_dir` has the profiles
// and frameworks that a scenario names; `like` the system, library and source of the collectives.
StepTimings time_steps(std::int64_t ranks, runtime::Backend& backend, const StepGrid& grid,
                       const std::string& scenarios_dir, const fit::CollectiveSample& like);

}  // namespace orrery::measure
