// SplitMix64's finaliser (Steele, Lea, Flood 2014): every bit of the result hangs on every bit.
// What is drawn with it is a function of its arguments: the same on every machine and in every
// order.
#pragma once

#include <cstdint>

namespace orrery::sim {

inline std::uint64_t split_mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

}  // namespace orrery::sim
