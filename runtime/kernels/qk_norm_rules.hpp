// Pieces of the norm of queries and keys (requests.hpp has the formulas): heads as they lie in
// packed rows, their weights, and 1/σ.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime {

// Columns of packed rows that are normed: queries, then keys.
ORRERY_HOST_DEVICE inline std::int64_t normed_width(const AttentionShape& shape) {
    return (shape.heads + shape.kv_heads) * shape.head_dim;
}

struct NormedHead {
    int part = 0;             // 0: of queries; 1: of keys
    std::int64_t column = 0;  // its first one, of a packed row …
    std::int64_t within = 0;  // … and of its part
};

// Heads of queries are counted before those of keys.
ORRERY_HOST_DEVICE inline NormedHead normed_head(const AttentionShape& shape, std::int64_t head) {
    const bool of_keys = head >= shape.heads;
    const std::int64_t first = of_keys ? shape.heads : 0;
    return {of_keys ? 1 : 0, head * shape.head_dim, (head - first) * shape.head_dim};
}

ORRERY_HOST_DEVICE inline std::int64_t width_of_part(const AttentionShape& shape,
                                                     const NormedHead& head) {
    return (head.part == 0 ? shape.heads : shape.kv_heads) * shape.head_dim;
}

// Elements that are normed together.
template <typename Op>
ORRERY_HOST_DEVICE std::int64_t elements_of_part(const Op& op, const NormedHead& head) {
    return op.sums ? width_of_part(op.shape, head) * op.ranks : op.shape.head_dim;
}

// sums [rows, 2].
ORRERY_HOST_DEVICE inline float sum_of_part(const Buffer& sums, std::int64_t row,
                                            const NormedHead& head) {
    return static_cast<const float*>(sums.data)[2 * row + head.part];
}

ORRERY_HOST_DEVICE inline float inverse_deviation(float squares, std::int64_t elements,
                                                  double epsilon) {
    return 1 / std::sqrt(squares / static_cast<float>(elements) + static_cast<float>(epsilon));
}

// What elements of a head are multiplied by; 1 where there is no weight.
struct QkWeight {
    Buffer weight;
    std::int64_t first = 0;
    float offset = 0;

    ORRERY_HOST_DEVICE float at(std::int64_t i) const {
        return weight ? load(weight, first + i) + offset : 1.0F;
    }
};

// One weight of all heads, or, where they are normed together, one of all their columns.
template <typename Op>
ORRERY_HOST_DEVICE QkWeight weight_of(const Op& op, const NormedHead& head) {
    return {head.part == 0 ? op.q_weight : op.k_weight, op.sums ? head.within : 0,
            static_cast<float>(op.weight_offset)};
}

}  // namespace orrery::runtime
