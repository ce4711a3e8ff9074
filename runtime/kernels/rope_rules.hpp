// The rotation of rotary positions, of one pair of elements.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

struct Turn {
    float cosine = 1;
    float sine = 0;
};

// The angle in fp64: a position times a frequency loses digits that an angle of fp32 needs.
ORRERY_HOST_DEVICE inline Turn turn_at(std::int64_t position, double inverse_frequency,
                                       bool backward) {
    const double angle = static_cast<double>(position) * inverse_frequency;
    const double sine = std::sin(angle);
    return {static_cast<float>(std::cos(angle)), static_cast<float>(backward ? -sine : sine)};
}

ORRERY_HOST_DEVICE inline void turn_pair(const Turn& turn, float& low, float& high) {
    const float before = low;
    low = before * turn.cosine - high * turn.sine;
    high = high * turn.cosine + before * turn.sine;
}

}  // namespace orrery::runtime
