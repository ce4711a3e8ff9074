// What a run must know besides the ops of a step: what weights start from, and how learning rate,
// batch and loss scale go from step to step. A plan is of one size of the batch; these are the same
// in the plans of all.
#pragma once

#include <cstdint>

namespace orrery::plan {

// Steps count from 1. Of w warm-up steps, step k ≤ w has k/w of `most`; then that stays, or falls
// along half a cosine (Loshchilov and Hutter 2017, arXiv 1608.03983) to `least` at the last step of
// the cosine and after.
struct LearningRates {
    double most = 0;
    double least = 0;
    std::int64_t warmup_steps = 0;
    bool falls = false;
    std::int64_t last_step = 0;

    double at(std::int64_t step) const;
    bool operator==(const LearningRates&) const = default;
};

// Sequences of a step: from `start` on in equal increments to `whole`, while so many are consumed
// (Megatron-LM's --rampup-batch-size).
struct BatchSizes {
    std::int64_t whole = 1;
    std::int64_t start = 0;  // 0: the whole batch from the first step on
    std::int64_t increment = 0;
    std::int64_t over_samples = 0;

    std::int64_t at(std::int64_t consumed_samples) const;
    bool operator==(const BatchSizes&) const = default;
};

struct TrainingFacts {
    LearningRates rates;
    BatchSizes batch;
    double initializer_deviation = 0;
    double loss_scale = 1;  // of the first step, where the plan scales the loss
    bool operator==(const TrainingFacts&) const = default;
};

}  // namespace orrery::plan
