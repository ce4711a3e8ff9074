// Running softmax (Milakov and Gimelshein 2018): Σ exp(score − largest) of scores that come in
// pieces, each piece scaled to the largest score known by then.
#pragma once

#include <cmath>
#include <limits>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

struct RunningSum {
    float largest = -std::numeric_limits<float>::infinity();
    float sum = 0;
};

// Makes `largest` the largest so far. Returns what everything summed under the one before has to be
// multiplied by; the sum has been.
ORRERY_HOST_DEVICE inline float raise_largest(RunningSum& running, float largest) {
    // Nothing has been summed while the largest is −∞, and ∞ − ∞ is not a number.
    if (!(largest > running.largest)) return 1;
    const float factor = std::exp(running.largest - largest);
    running.largest = largest;
    running.sum *= factor;
    return factor;
}

// log of Σ exp(score).
ORRERY_HOST_DEVICE inline float log_sum_exp(const RunningSum& running) {
    return running.largest + std::log(running.sum);
}

// cap·tanh(x ÷ cap), and its slope; x where there is no cap.
struct Capped {
    float value = 0;
    float slope = 1;
};
ORRERY_HOST_DEVICE inline Capped capped(float x, float cap) {
    if (!(cap > 0)) return {x, 1};
    const float t = std::tanh(x / cap);
    return {t * cap, 1 - t * t};
}

}  // namespace orrery::runtime
