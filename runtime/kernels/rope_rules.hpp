// What depends on positions: the rotation of rotary positions, of one pair of elements, and what
// queries are multiplied by.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

struct Turn {
    float cosine = 1;
    float sine = 0;
};

// The angle in fp64: a position times a frequency loses digits that an angle of fp32 needs. What is
// turned is multiplied by `scale` too.
ORRERY_HOST_DEVICE inline Turn turn_at(std::int64_t position, double inverse_frequency,
                                       bool backward, double scale = 1) {
    const double angle = static_cast<double>(position) * inverse_frequency;
    const double sine = scale * std::sin(angle);
    return {static_cast<float>(scale * std::cos(angle)),
            static_cast<float>(backward ? -sine : sine)};
}

ORRERY_HOST_DEVICE inline void turn_pair(const Turn& turn, float& low, float& high) {
    const float before = low;
    low = before * turn.cosine - high * turn.sine;
    high = high * turn.cosine + before * turn.sine;
}

// What TemperQueries multiplies by, in fp64.
ORRERY_HOST_DEVICE inline float temper_factor(std::int64_t position, std::int64_t floor,
                                              double scale) {
    const std::int64_t times = (position + 1) / floor;
    return static_cast<float>(1 + scale * std::log1p(static_cast<double>(times)));
}

}  // namespace orrery::runtime
