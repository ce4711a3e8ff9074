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

// The factors of elements one after the other, whose random words come in blocks of four.
class DropoutFactors {
  public:
    ORRERY_HOST_DEVICE explicit DropoutFactors(const DropoutKey& key)
        : key_(key),
          first_kept_(static_cast<std::uint32_t>(first_kept_word(key))),
          kept_(kept_factor(key)) {}

    ORRERY_HOST_DEVICE float at(std::uint64_t index) {
        if (index / 4 != block_) {
            block_ = index / 4;
            words_ = random_block(key_.random, block_);
        }
        const std::uint64_t i = index % 4;
        const std::uint32_t low = i == 0 ? words_.word[0] : words_.word[1];
        const std::uint32_t high = i == 2 ? words_.word[2] : words_.word[3];
        return (i < 2 ? low : high) >= first_kept_ ? kept_ : 0.0F;
    }

  private:
    DropoutKey key_;
    std::uint32_t first_kept_;
    float kept_;
    std::uint64_t block_ = ~std::uint64_t{0};  // which no index has
    PhiloxWords words_{};
};

}  // namespace orrery::runtime
