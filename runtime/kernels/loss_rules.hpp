// Pieces of the vocabulary-parallel cross-entropy (requests.hpp has the formulas).
#pragma once

#include <cstdint>

#include "runtime/host_device.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

// Column of the target on this rank, or −1.
ORRERY_HOST_DEVICE inline std::int64_t column_of(const LogitsPart& part, std::int32_t target) {
    const std::int64_t column = target - part.first_column;
    return target >= 0 && column >= 0 && column < part.valid_columns ? column : -1;
}

// What the rank's Σ exp of an ignored row is taken to be, so that its loss is log 1 = 0.
ORRERY_HOST_DEVICE inline float sum_of_ignored(const LogitsPart& part) {
    return part.first_column == 0 ? 1.0F : 0.0F;
}

// What gradients of logits are multiplied by.
template <typename Backward>
ORRERY_HOST_DEVICE float gradient_scale(const Backward& op) {
    const double loss_scale = op.loss_scale != nullptr ? static_cast<double>(*op.loss_scale) : 1;
    return static_cast<float>(op.scale * loss_scale);
}

}  // namespace orrery::runtime
