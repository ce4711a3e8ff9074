// Element types inside kernels. A kernel is compiled for the two types it may compute in, fp32 and
// fp64; rows of any element type are read as, and written from, that type. A row that has the type
// already is used where it lies.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "runtime/cpu/kernels.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

template <typename W>
using Array = Eigen::Map<Eigen::Array<W, Eigen::Dynamic, 1>>;
template <typename W>
using ConstArray = Eigen::Map<const Eigen::Array<W, Eigen::Dynamic, 1>>;

template <typename W>
inline constexpr plan::DType kDType = sizeof(W) == 8 ? plan::DType::fp64 : plan::DType::fp32;

// Calls f(W{}) for the type W that elements of `dtype` are computed in.
template <typename F>
void with_work_type(plan::DType dtype, const F& f) {
    if (dtype == plan::DType::fp64)
        f(double{});
    else
        f(float{});
}

// Elements [begin, begin + n) as W. Defined for float and double (elements.cpp).
template <typename W>
void convert_from(const Buffer& from, std::int64_t begin, std::int64_t n, W* to);
template <typename W>
void convert_to(const Buffer& to, std::int64_t begin, std::int64_t n, const W* from);

template <typename W>
W* data(const Buffer& buffer, std::int64_t begin = 0) {
    return static_cast<W*>(buffer.data) + begin;
}

// Elements [begin, begin + n) where they lie if they are W, else converted into `space`.
template <typename W>
const W* read(const Buffer& from, std::int64_t begin, std::int64_t n, W* space) {
    if (from.dtype == kDType<W>) return data<W>(from, begin);
    convert_from(from, begin, n, space);
    return space;
}

// Where to compute elements that `store` then puts into `to`: there, or in `space`.
template <typename W>
W* target(const Buffer& to, std::int64_t begin, W* space) {
    return to.dtype == kDType<W> ? data<W>(to, begin) : space;
}
template <typename W>
void store(const W* computed, const Buffer& to, std::int64_t begin, std::int64_t n) {
    if (to.dtype != kDType<W>) convert_to(to, begin, n, computed);
}

// Elementwise work is done in pieces whose `space` lies on the stack, in the first cache.
inline constexpr std::int64_t kPiece = 1024;
inline constexpr std::int64_t kPiecesPerPart = 16;
template <typename W>
struct Space {
    alignas(64) W at[kPiece];
};

// Calls f(begin, length) for pieces of [0, n).
template <typename F>
void for_pieces(Team& team, std::int64_t n, const F& f) {
    team.parallel_for(n, kPiece * kPiecesPerPart, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; i += kPiece)
            f(i, end - i < kPiece ? end - i : kPiece);
    });
}

// Calls f(run) for the runs of a request of so many elements.
template <typename Run, typename F>
void for_runs(const ElementRuns<Run>& runs, std::int64_t elements, const F& f) {
    if (runs.of == nullptr) {
        Run whole;
        whole.elements = elements;
        f(whole);
    }
    for (std::int64_t i = 0; i < runs.count; ++i)
        f(runs.of[i]);
}

// Rows that are work enough for handing them out to cost little.
inline std::int64_t rows_per_part(std::int64_t width) {
    const std::int64_t rows = kPiece * kPiecesPerPart / (width > 0 ? width : 1);
    return rows > 0 ? rows : 1;
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
