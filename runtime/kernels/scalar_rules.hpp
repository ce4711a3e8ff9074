// What is decided by a few numbers at the end of a step: how far gradients are clipped, whether the
// step is taken, what becomes of the loss scale. The numbers lie on the device, so each device
// decides; the rules are these, for all.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

// √Σ g² of the five sums that a GradientNorm leaves.
ORRERY_HOST_DEVICE inline double norm_of(const double bins[5]) {
    // Beyond the first the bins of an infinite sum hold ∞ − ∞.
    if (!std::isfinite(bins[0])) return bins[0];
    return std::sqrt((((bins[4] + bins[3]) + bins[2]) + bins[1]) + bins[0]);
}

// PyTorch's clip_grad_norm_ and Megatron-LM's clip_grad_by_total_norm_fp32. 1 without bins.
ORRERY_HOST_DEVICE inline double clip_factor(const double* bins, double clip_norm) {
    if (bins == nullptr) return 1;
    const double factor = clip_norm / (norm_of(bins) + 1e-6);
    return factor < 1 ? factor : 1;
}

// Whether what the gradients of all stages come to calls for another update than one that neither
// clips nor skips (null: not looked at).
inline bool calls_for_amendment(const double* bins, double clip_norm, const float* overflow) {
    return clip_factor(bins, clip_norm) < 1 || (overflow != nullptr && *overflow > 0);
}

// plan::DynamicLossScale, without where it begins.
struct LossScaleRule {
    std::int64_t growth_interval = 0;
    std::int64_t hysteresis = 0;
    double minimum = 0;
};

// Megatron-LM's DynamicGradScaler.update; the counters are steps without overflow, and overflows
// since the scale last grew.
ORRERY_HOST_DEVICE inline void update_loss_scale(const LossScaleRule& rule, bool overflow,
                                                 float& scale, std::int32_t counters[2]) {
    if (overflow) {
        counters[0] = 0;
        if (++counters[1] < rule.hysteresis) return;
        const float half = scale / 2;
        const auto minimum = static_cast<float>(rule.minimum);
        scale = half > minimum ? half : minimum;
    } else if (++counters[0] == rule.growth_interval) {
        counters[0] = 0;
        counters[1] = 0;
        scale *= 2;
    }
}

// plan::LossSpike.
struct LossSpikeRule {
    std::int64_t window = 0;
    double skip_above = 0;
};

// Whether the batch's loss has spiked above those that count, the latest ones in turn; one that is
// not a number has. It counts itself unless it has spiked or the step overflowed: such a step is
// not taken either way. `count`: how many have counted.
ORRERY_HOST_DEVICE inline bool judge_loss(const LossSpikeRule& rule, double loss, bool overflow,
                                          double* accepted, std::int32_t& count) {
    double sum = 0;
    for (std::int64_t i = 0; i < rule.window; ++i)
        sum += accepted[i];
    const double mean = sum / static_cast<double>(rule.window);
    const bool spiked = !overflow && count >= rule.window && !(loss <= rule.skip_above * mean);
    if (spiked || overflow) return spiked;
    accepted[count % rule.window] = loss;
    ++count;
    return false;
}

}  // namespace orrery::runtime
