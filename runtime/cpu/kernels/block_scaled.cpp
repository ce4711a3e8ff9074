// Casts to and from eight bits with a scale per block.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/kernels/block_scaled.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

static_assert(kPiece % kScaledBlock == 0, "a block lies within a piece");

template <typename W>
void pack_block(const W* from, std::int64_t n, std::uint8_t* to, std::uint8_t& scale) {
    float largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const float magnitude = std::fabs(static_cast<float>(from[i]));
        largest = magnitude <= largest ? largest : magnitude;  // of what is no number: that
    }
    scale = scale_of(largest);
    if (scale == kNoScale) {
        std::fill_n(to, n, std::uint8_t{0});
        return;
    }
    const float factor = value_of(scale);
    for (std::int64_t i = 0; i < n; ++i)
        to[i] = to_e4m3(static_cast<float>(from[i]) / factor);
}

template <typename W>
void unpack_block(const std::uint8_t* from, std::int64_t n, std::uint8_t scale, W* to) {
    const float factor = value_of(scale);
    for (std::int64_t i = 0; i < n; ++i)
        to[i] = static_cast<W>(from_e4m3(from[i]) * factor);
}

// Calls f(first element within the piece, length, number of the block) for the blocks of a piece.
template <typename F>
void for_blocks(std::int64_t begin, std::int64_t n, const F& f) {
    for (std::int64_t i = 0; i < n; i += kScaledBlock)
        f(i, std::min(kScaledBlock, n - i), (begin + i) / kScaledBlock);
}

}  // namespace

void pack(const Cast& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) {
        using W = decltype(w);
        for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
            Space<W> space;
            const W* const from = read(op.x, begin, n, space.at);
            for_blocks(begin, n, [&](std::int64_t i, std::int64_t length, std::int64_t block) {
                pack_block(from + i, length, data<std::uint8_t>(op.y, begin + i),
                           *data<std::uint8_t>(op.scales, block));
            });
        });
    });
}

void unpack(const Cast& op, Team& team) {
    with_work_type(op.y.dtype, [&](auto w) {
        using W = decltype(w);
        for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
            Space<W> space;
            W* const to = target(op.y, begin, space.at);
            for_blocks(begin, n, [&](std::int64_t i, std::int64_t length, std::int64_t block) {
                unpack_block(data<std::uint8_t>(op.x, begin + i), length,
                             *data<std::uint8_t>(op.scales, block), to + i);
            });
            store(to, op.y, begin, n);
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
