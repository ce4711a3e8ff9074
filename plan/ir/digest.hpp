// Two words that stand for a row of numbers: rows that differ have others, but for an accident that
// nobody will see (128 bits, each of which every number changes).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace orrery::plan {

struct Digest {
    std::uint64_t first = 0x9E3779B97F4A7C15ULL, second = 0xD1B54A32D192ED03ULL;

    void add(std::uint64_t number) {
        first = std::rotl((first ^ number) * 0xBF58476D1CE4E5B9ULL, 31);
        second = std::rotl((second + number) * 0x94D049BB133111EBULL, 29) ^ first;
    }
    bool operator==(const Digest&) const = default;
};

struct DigestHash {
    std::size_t operator()(const Digest& digest) const { return digest.first; }
};

}  // namespace orrery::plan
