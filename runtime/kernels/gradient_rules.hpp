// What is done to one gradient at the end of a step: split into the norm's partial sums, and
// stepped by AdamW.
#pragma once

#include <cmath>

#include "runtime/host_device.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

inline constexpr int kNormBins = 5;

// Adds g² to the five bins of GradientNorm. With c = 1.5·2^52 units, x + c − c is x rounded to
// whole units, as long as |x| is below 2^51 of them; what is left goes on to the next bin, whose
// unit is 2^21 times smaller. Must never be contracted or reordered.
ORRERY_HOST_DEVICE inline void add_square(double g, double bins[kNormBins]) {
    double rest = g * g;
    double constant = 0x1.8p39;
    for (int bin = 0; bin < kNormBins; ++bin) {
        const double part = (rest + constant) - constant;
        bins[bin] += part;
        rest -= part;
        constant *= 0x1p-21;
    }
}

// What every element of an AdamW has in common, with the gradients' factor multiplied in.
struct AdamWStep {
    float beta1, gradient1, beta2, gradient2, epsilon, rate, inverse2, kept;
};

ORRERY_HOST_DEVICE inline AdamWStep adamw_step(const AdamW& op, double gradient_factor) {
    const auto factor = static_cast<float>(gradient_factor);
    return {static_cast<float>(op.beta1),
            static_cast<float>(1 - op.beta1) * factor,
            static_cast<float>(op.beta2),
            static_cast<float>(1 - op.beta2) * factor * factor,
            static_cast<float>(op.epsilon),
            static_cast<float>(op.learning_rate / op.correction1),
            static_cast<float>(1 / op.correction2),
            static_cast<float>(1 - op.learning_rate * op.weight_decay)};
}

// m and v are stepped; the result is the weight's.
ORRERY_HOST_DEVICE inline float step_weight(const AdamWStep& step, float g, float w, float& m,
                                            float& v) {
    m = step.beta1 * m + step.gradient1 * g;
    v = step.beta2 * v + step.gradient2 * (g * g);
    return step.kept * w - step.rate * m / (std::sqrt(v * step.inverse2) + step.epsilon);
}

// Of a run that has a sign rate.
ORRERY_HOST_DEVICE inline float step_weight_by_sign(float rate, float g, float w) {
    if (g > 0) w -= rate;
    if (g < 0) w += rate;
    return w;
}

}  // namespace orrery::runtime
