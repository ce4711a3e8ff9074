// Random numbers that are a function of an index: the same on every rank, layout, thread and
// device, with no state to keep or to save. Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011): ten rounds turn a counter of four words and a key
// of two into four words that pass every known statistical test.
// Inlined by force, as in runtime/number.hpp.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

struct PhiloxWords {
    std::uint32_t word[4];
};

// What a random number is for: `site` tells uses apart (which dropout of which layer, which
// tensor), `step` is the training step.
struct RandomKey {
    std::uint64_t seed = 0;
    std::uint32_t site = 0;
    std::uint32_t step = 0;
};

[[gnu::always_inline]] ORRERY_HOST_DEVICE constexpr PhiloxWords philox4x32(PhiloxWords counter,
                                                                           std::uint64_t key) {
    auto low_key = static_cast<std::uint32_t>(key);
    auto high_key = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter.word[0];
        const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter.word[2];
        counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.word[1] ^ low_key,
                    static_cast<std::uint32_t>(second),
                    static_cast<std::uint32_t>(first >> 32) ^ counter.word[3] ^ high_key,
                    static_cast<std::uint32_t>(first)}};
        low_key += 0x9E3779B9U;
        high_key += 0xBB67AE85U;
    }
    return counter;
}

// The four words of indices 4·block … 4·block + 3.
[[gnu::always_inline]] ORRERY_HOST_DEVICE constexpr PhiloxWords random_block(const RandomKey& key,
                                                                             std::uint64_t block) {
    return philox4x32({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                        key.site, key.step}},
                      key.seed);
}

// Uniform over all 32-bit words.
[[gnu::always_inline]] ORRERY_HOST_DEVICE constexpr std::uint32_t random_word(const RandomKey& key,
                                                                              std::uint64_t index) {
    return random_block(key, index / 4).word[index % 4];
}

// Uniform in (0, 1): the middles of 2^52 equal parts; one block of words per index.
[[gnu::always_inline]] ORRERY_HOST_DEVICE constexpr double uniform(const RandomKey& key,
                                                                   std::uint64_t index) {
    const PhiloxWords words = random_block(key, index);
    const std::uint64_t bits = (std::uint64_t{words.word[1]} << 32) | words.word[0];
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

struct NormalPair {
    double even = 0;
    double odd = 0;
};

// Standard normals of indices 2·pair and 2·pair + 1 (Box and Muller 1958).
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline NormalPair normal_pair(const RandomKey& key,
                                                                        std::uint64_t pair) {
    constexpr double kTwoPi = 6.283185307179586476925;
    const double radius = std::sqrt(-2.0 * std::log(uniform(key, 2 * pair)));
    const double angle = kTwoPi * uniform(key, 2 * pair + 1);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline double normal(const RandomKey& key,
                                                               std::uint64_t index) {
    const NormalPair pair = normal_pair(key, index / 2);
    return index % 2 == 0 ? pair.even : pair.odd;
}

// Elements of a tensor that are dropped with probability p; 0: none. Element e is kept where
// random_word(random, e) ≥ p·2^32, and then divided by 1 − p.
struct DropoutKey {
    RandomKey random;
    double p = 0;

    [[gnu::always_inline]] ORRERY_HOST_DEVICE explicit operator bool() const { return p > 0; }
};

// Smallest word that keeps its element.
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline std::uint64_t first_kept_word(
    const DropoutKey& key) {
    return static_cast<std::uint64_t>(std::ceil(key.p * 0x1p32));
}

}  // namespace orrery::runtime
