// Elements that a thread reads and writes by 16 bytes, or one by one where they do not lie so. A
// kernel is a template over kAtOnce, 8 or 1; fp32 takes two accesses of 16 bytes for 8.
#pragma once

#include <initializer_list>

#include "runtime/cuda/launch.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kMostAtOnce = 8;

template <int kAtOnce>
struct Elements {
    float of[kAtOnce];
};

namespace at_once_detail {
struct alignas(16) Words {
    std::uint32_t of[4];
};
template <typename E>
__device__ void load_words(const E* from, Elements<8>& to) {
    const Words words = *reinterpret_cast<const Words*>(from);
    ORRERY_UNROLLED
    for (int i = 0; i < 4; ++i) {
        to.of[2 * i] = to_float(E{static_cast<std::uint16_t>(words.of[i])});
        to.of[2 * i + 1] = to_float(E{static_cast<std::uint16_t>(words.of[i] >> 16U)});
    }
}
__device__ inline std::uint32_t bits_of(BFloat16, float x) {
    return to_bfloat16(x).bits;
}
__device__ inline std::uint32_t bits_of(Half, float x) {
    return to_half(x).bits;
}
template <typename E>
__device__ void store_words(E* to, const Elements<8>& from) {
    Words words;
    ORRERY_UNROLLED
    for (int i = 0; i < 4; ++i)
        words.of[i] = bits_of(E{}, from.of[2 * i]) | (bits_of(E{}, from.of[2 * i + 1]) << 16U);
    *reinterpret_cast<Words*>(to) = words;
}
}  // namespace at_once_detail

// From element `first` on, which is a multiple of kAtOnce.
template <int kAtOnce>
__device__ Elements<kAtOnce> load_at_once(const Buffer& from, std::int64_t first) {
    Elements<kAtOnce> loaded;
    if constexpr (kAtOnce == 1) {
        loaded.of[0] = load(from, first);
    } else if (from.dtype == plan::DType::bf16) {
        at_once_detail::load_words(static_cast<const BFloat16*>(from.data) + first, loaded);
    } else if (from.dtype == plan::DType::fp16) {
        at_once_detail::load_words(static_cast<const Half*>(from.data) + first, loaded);
    } else {
        const auto* const words = reinterpret_cast<const at_once_detail::Words*>(
            static_cast<const float*>(from.data) + first);
        ORRERY_UNROLLED
        for (int half = 0; half < 2; ++half) {
            const at_once_detail::Words read = words[half];
            ORRERY_UNROLLED
            for (int i = 0; i < 4; ++i)
                loaded.of[4 * half + i] = std::bit_cast<float>(read.of[i]);
        }
    }
    return loaded;
}

template <int kAtOnce>
__device__ void store_at_once(const Buffer& to, std::int64_t first,
                              const Elements<kAtOnce>& values) {
    if constexpr (kAtOnce == 1) {
        store(to, first, values.of[0]);
    } else if (to.dtype == plan::DType::bf16) {
        at_once_detail::store_words(static_cast<BFloat16*>(to.data) + first, values);
    } else if (to.dtype == plan::DType::fp16) {
        at_once_detail::store_words(static_cast<Half*>(to.data) + first, values);
    } else {
        auto* const words =
            reinterpret_cast<at_once_detail::Words*>(static_cast<float*>(to.data) + first);
        ORRERY_UNROLLED
        for (int half = 0; half < 2; ++half) {
            at_once_detail::Words written;
            ORRERY_UNROLLED
            for (int i = 0; i < 4; ++i)
                written.of[i] = std::bit_cast<std::uint32_t>(values.of[4 * half + i]);
            words[half] = written;
        }
    }
}

template <int kAtOnce>
__device__ void add_to(Elements<kAtOnce>& sum, const Buffer& from, std::int64_t first) {
    const Elements<kAtOnce> more = load_at_once<kAtOnce>(from, first);
    ORRERY_UNROLLED
    for (int j = 0; j < kAtOnce; ++j)
        sum.of[j] += more.of[j];
}

// Calls f(integral constant of kAtOnce): 8 where rows of `width` elements, and these buffers, lie
// on 16 bytes.
template <typename F>
void with_at_once(std::int64_t width, std::initializer_list<Buffer> buffers, const F& f) {
    bool all = width % kMostAtOnce == 0;
    for (const Buffer& buffer : buffers)
        all = all && reinterpret_cast<std::uintptr_t>(buffer.data) % 16 == 0;
    if (all)
        f(std::integral_constant<int, kMostAtOnce>{});
    else
        f(std::integral_constant<int, 1>{});
}

// Threads of a block that goes over a row: no more warps than have something of it.
template <int kAtOnce>
Grid rows_grid(std::int64_t rows, std::int64_t width) {
    const std::int64_t pieces = (width / kAtOnce + kWarp - 1) / kWarp * kWarp;
    const std::int64_t threads = pieces < kThreads ? (pieces > 0 ? pieces : kWarp) : kThreads;
    return {blocks_for(rows), static_cast<unsigned>(threads)};
}

}  // namespace orrery::runtime::cuda
