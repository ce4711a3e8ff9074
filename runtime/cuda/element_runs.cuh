// Work that goes over runs of elements (runtime/kernels/requests.hpp) in one launch: a block takes
// a tile of all elements, and of it what runs hold. Runs may begin and end anywhere; a thread takes
// kAtOnce elements at once where they lie so, and the ends one by one.
#pragma once

#include <algorithm>
#include <type_traits>

#include "runtime/cuda/at_once.cuh"

namespace orrery::runtime::cuda {

inline constexpr std::int64_t kRunTile = 2 * kThreads * kMostAtOnce;

inline unsigned blocks_of_tiles(std::int64_t elements) {
    return blocks_for((elements + kRunTile - 1) / kRunTile);
}

// The first run that ends behind an element.
template <typename Run>
__device__ std::int64_t first_behind(const ElementRuns<Run>& runs, std::int64_t element) {
    std::int64_t first = 0, end = runs.count;
    while (first < end) {
        const std::int64_t middle = (first + end) / 2;
        if (runs.of[middle].first + runs.of[middle].elements > element)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

// Calls f(run, begin, end) for what runs hold of the block's tiles; every thread of it does.
template <typename Run, typename F>
__device__ void over_runs(const ElementRuns<Run>& runs, std::int64_t elements, const F& f) {
    for (std::int64_t begin = std::int64_t{blockIdx.x} * kRunTile; begin < elements;
         begin += std::int64_t{gridDim.x} * kRunTile) {
        const std::int64_t end = std::min(begin + kRunTile, elements);
        if (runs.of == nullptr) {
            f(Run{}, begin, end);
            continue;
        }
        for (std::int64_t i = first_behind(runs, begin); i < runs.count; ++i) {
            const Run run = runs.of[i];
            if (run.first >= end) break;
            f(run, std::max(begin, run.first), std::min(end, run.first + run.elements));
        }
    }
}

// Calls f(integral constant of how many at once, first of them) for this thread's elements of
// [begin, end).
template <int kAtOnce, typename F>
__device__ void over_elements(std::int64_t begin, std::int64_t end, const F& f) {
    const std::int64_t from = std::min((begin + kAtOnce - 1) / kAtOnce * kAtOnce, end);
    const std::int64_t to = std::max(from, end / kAtOnce * kAtOnce);
    for (std::int64_t i = from + threadIdx.x * kAtOnce; i < to; i += blockDim.x * kAtOnce)
        f(std::integral_constant<int, kAtOnce>{}, i);
    if constexpr (kAtOnce > 1) {
        const std::int64_t before = from - begin;
        for (std::int64_t i = threadIdx.x; i < before + (end - to); i += blockDim.x)
            f(std::integral_constant<int, 1>{}, i < before ? begin + i : to + i - before);
    }
}

}  // namespace orrery::runtime::cuda
