// Tiles of flash attention in shared memory. A tile has a tall side, whose rows are distributed
// over groups of eight threads and whose sums stay in their registers, and a wide side, which all
// of them go over: queries and keys in the forward kernel and for the gradient of queries; keys and
// queries for those of keys and values. Heads are padded to 64, 128 or 256 elements of 0.
#pragma once

#include <algorithm>

#include "runtime/cuda/attention_walk.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kLanes = 8;  // threads of a group
inline constexpr int kGroups = 16;
inline constexpr int kAttentionThreads = kLanes * kGroups;
inline constexpr int kWidestHead = 256;

// `kOwn`: see attention_walk.cuh.
template <int kDim, bool kOwn>
struct Tile {
    static constexpr bool kOwnKeys = kOwn;
    static constexpr int kRows = 256 / kDim;  // of a group
    static constexpr int kTall = kGroups * kRows;
    static constexpr int kWide = kDim < 256 ? 32 : 16;
    static constexpr int kPerLane = kWide / kLanes;
    static constexpr int kColumns = kDim / kLanes;  // of a head, of a thread
    // One more than a power of two: neighbouring rows lie in different banks.
    static constexpr int kHeadPitch = kDim + 1;
    static constexpr int kMapPitch = kWide + 1;
    static constexpr int kTallSize = kTall * kHeadPitch;  // floats of shared memory
    static constexpr int kWideSize = kWide * kHeadPitch;
    static constexpr int kMapSize = kTall * kMapPitch;

    // What a thread has of the tile's map, of a sum, and of the rows of the tall side.
    using Map = float[kRows][kPerLane];
    using Sums = float[kRows][kColumns];

    __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
    __device__ static int group() { return static_cast<int>(threadIdx.x) / kLanes; }
    __device__ static int row(int i) { return group() + kGroups * i; }
    __device__ static int column(int j) { return lane() + kLanes * j; }

    // rows of a head from element `first` on, `stride` from one to the next; those from `valid` on
    // are 0.
    __device__ static void read(const Buffer& from, std::int64_t first, std::int64_t stride,
                                int rows, std::int64_t valid, int head_dim, float* to) {
        for (int i = static_cast<int>(threadIdx.x); i < rows * kDim; i += kAttentionThreads) {
            const int r = i / kDim, c = i % kDim;
            const bool inside = r < valid && c < head_dim;
            to[r * kHeadPitch + c] = inside ? load(from, first + r * stride + c) : 0.0F;
        }
    }

    // map = tall · wideᵀ.
    __device__ static void multiply(const float* tall, const float* wide, int head_dim, Map& map) {
        for (int i = 0; i < kRows; ++i)
            for (int j = 0; j < kPerLane; ++j)
                map[i][j] = 0;
        for (int c = 0; c < head_dim; ++c)
            for (int i = 0; i < kRows; ++i) {
                const float a = tall[row(i) * kHeadPitch + c];
                for (int j = 0; j < kPerLane; ++j)
                    map[i][j] = std::fma(a, wide[column(j) * kHeadPitch + c], map[i][j]);
            }
    }

    // Puts the thread's part of a map where its group can read it: rows of a map are a group's own.
    __device__ static void share(const Map& map, float* shared) {
        for (int i = 0; i < kRows; ++i)
            for (int j = 0; j < kPerLane; ++j)
                shared[row(i) * kMapPitch + column(j)] = map[i][j];
        __syncwarp();
    }

    // sums += map · wide.
    __device__ static void add_product(const float* map, const float* wide, Sums& sums) {
        for (int j = 0; j < kWide; ++j)
            for (int i = 0; i < kRows; ++i) {
                const float a = map[row(i) * kMapPitch + j];
                for (int c = 0; c < kColumns; ++c)
                    sums[i][c] = std::fma(a, wide[j * kHeadPitch + column(c)], sums[i][c]);
            }
    }

    __device__ static void clear(Sums& sums) {
        for (int i = 0; i < kRows; ++i)
            for (int c = 0; c < kColumns; ++c)
                sums[i][c] = 0;
    }

    // Row i of the sums is a head's from element `first` on.
    __device__ static void take_up(const Buffer& from, std::int64_t first, int head_dim, int i,
                                   Sums& sums) {
        for (int c = 0; c < kColumns; ++c)
            if (column(c) < head_dim) sums[i][c] = load(from, first + column(c));
    }

    // Row i of the sums, times `factor`, into a head from element `first` on.
    __device__ static void write(const Sums& sums, int i, float factor, int head_dim,
                                 const Buffer& to, std::int64_t first) {
        for (int c = 0; c < kColumns; ++c)
            if (column(c) < head_dim) store(to, first + column(c), sums[i][c] * factor);
    }
};

template <bool kOwn, typename F>
void with_tile_of(const char* name, std::int64_t head_dim, const F& f) {
    if (head_dim <= 64)
        f(Tile<64, kOwn>{});
    else if (head_dim <= 128)
        f(Tile<128, kOwn>{});
    else if (head_dim <= kWidestHead)
        f(Tile<256, kOwn>{});
    else
        throw DeviceError("kernel " + std::string(name) + ": a head of " +
                          std::to_string(head_dim) + " elements; at most " +
                          std::to_string(kWidestHead) + " are supported");
}

// Calls f(Tile) with the narrowest tile that holds a head's keys and its values.
template <typename Request, typename F>
void with_tile(const char* name, const Request& op, const F& f) {
    const std::int64_t head_dim = std::max(op.shape.head_dim, op.shape.values());
    if (has_own_keys(op))
        with_tile_of<true>(name, head_dim, f);
    else
        with_tile_of<false>(name, head_dim, f);
}

}  // namespace orrery::runtime::cuda
