// An order of 0 … n−1 that looks random, of which any place is computed alone: no table, no state.
//
// A Feistel network permutes the numbers of an even number of bits: a round exchanges the halves
// (a, b) for (b, a ⊕ f(b)), which can be undone whatever f is (Luby and Rackoff 1988; here f is
// Philox, and there are twice their four rounds because the halves of small n are short). Numbers
// that come out at n or beyond are put in again until one below n does, which leaves a permutation
// of 0 … n−1 (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
// Fewer than four times on average, as the network's domain is below 4n.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/random.hpp"

namespace orrery::runtime {

class Permutation {
  public:
    // `n` > 0. `number` tells orders under one seed apart; the same again after 2^32 of them.
    Permutation(std::uint64_t seed, std::uint64_t number, std::uint64_t n)
        : seed_(seed),
          number_(static_cast<std::uint32_t>(number)),
          n_(n),
          half_bits_(static_cast<int>(std::bit_width(n - 1) + 1) / 2) {}

    // What stands at place `i` < n.
    std::uint64_t operator()(std::uint64_t i) const {
        do
            i = network(i);
        while (i >= n_);
        return i;
    }

  private:
    static constexpr std::uint32_t kRounds = 8;
    // In place of a step, which no step reaches: random numbers of training are never these.
    static constexpr std::uint32_t kNoStep = 0xFFFFFFFFU;

    std::uint64_t network(std::uint64_t i) const {
        const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
        std::uint64_t a = i >> half_bits_, b = i & mask;
        for (std::uint32_t round = 0; round < kRounds; ++round) {
            const PhiloxWords words =
                philox4x32({{static_cast<std::uint32_t>(b), round, number_, kNoStep}}, seed_);
            const std::uint64_t exchanged = a ^ (words.word[0] & mask);
            a = b;
            b = exchanged;
        }
        return a << half_bits_ | b;
    }

    std::uint64_t seed_;
    std::uint32_t number_;
    std::uint64_t n_;
    int half_bits_;  // at most 32
};

}  // namespace orrery::runtime
