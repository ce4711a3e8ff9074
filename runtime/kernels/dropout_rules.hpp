// Which elements dropout keeps, one at a time. The masks of all backends are these, bit for bit.
#pragma once

#include <cstdint>

#include "runtime/host_device.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

ORRERY_HOST_DEVICE inline std::uint64_t global_index(const ElementIndex& index,
                                                     std::int64_t element) {
    const auto i = index.begin + static_cast<std::uint64_t>(element);
    if (index.run == 0) return index.first + i;
    const std::uint64_t of_run = i % index.run;
    const std::uint64_t skipped = of_run >= index.split ? index.skip : 0;
    return index.first + i / index.run * index.stride + of_run + skipped;
}

// 1/(1 − p), which a kept element is multiplied by.
ORRERY_HOST_DEVICE inline float kept_factor(const DropoutKey& key) {
    return static_cast<float>(1 / (1 - key.p));
}

// What the element of this global index is multiplied by: 1/(1 − p), or 0.
ORRERY_HOST_DEVICE inline float dropout_factor(const DropoutKey& key, std::uint64_t index) {
    return random_word(key.random, index) >= first_kept_word(key) ? kept_factor(key) : 0.0F;
}

// Of this element and the next one, out of one block of random words where both are in one.
struct FactorPair {
    float first = 1, second = 1;
};
ORRERY_HOST_DEVICE inline FactorPair dropout_factors(const DropoutKey& key, std::uint64_t index) {
    const auto [w0, w1, w2, w3] = random_block(key.random, index / 4).word;
    const std::uint64_t at = index % 4;
    const std::uint32_t first = at < 2 ? (at == 0 ? w0 : w1) : (at == 2 ? w2 : w3);
    std::uint32_t second = at < 2 ? (at == 0 ? w1 : w2) : w3;
    if (at == 3) second = random_word(key.random, index + 1);
    const auto kept = static_cast<std::uint32_t>(first_kept_word(key));
    const float factor = kept_factor(key);
    return {first >= kept ? factor : 0.0F, second >= kept ? factor : 0.0F};
}

}  // namespace orrery::runtime
