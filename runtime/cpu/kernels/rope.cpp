#include <algorithm>
#include <cmath>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void turn(W* head, const W* cosine, const W* sine, std::int64_t half) {
    for (std::int64_t i = 0; i < half; ++i) {
        const W low = head[i], high = head[i + half];
        head[i] = low * cosine[i] - high * sine[i];
        head[i + half] = high * cosine[i] + low * sine[i];
    }
}

// Angles in fp64: a position times a frequency loses digits that an angle of fp32 needs.
template <typename W>
void rope_as(const Rope& op, double direction, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t half = op.rotary_dim / 2;
    ORRERY_CHECK(op.rotary_dim <= kPiece, "a head is at most 1024 wide");
    team.parallel_for(shape.sequence, 16, [&](std::int64_t begin, std::int64_t end) {
        Space<W> cosine, sine, space;
        for (std::int64_t token = begin; token < end; ++token) {
            const std::int64_t position = op.part.position_of(token, shape.sequence);
            for (std::int64_t i = 0; i < half; ++i) {
                const double angle = static_cast<double>(position) * op.inverse_frequencies[i];
                cosine.at[i] = static_cast<W>(std::cos(angle));
                sine.at[i] = static_cast<W>(direction * std::sin(angle));
            }
            for (std::int64_t sample = 0; sample < shape.batch; ++sample)
                for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
                    const std::int64_t row = sample * shape.sequence + token;
                    const std::int64_t at = row * shape.qkv_width() + head * shape.head_dim;
                    convert_from(op.qkv, at, op.rotary_dim, space.at);
                    turn(space.at, cosine.at, sine.at, half);
                    convert_to(op.qkv, at, op.rotary_dim, space.at);
                }
        }
    });
}

template <typename W>
void temper_queries_as(const TemperQueries& op, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t width = shape.heads * shape.head_dim;
    team.parallel_for(shape.sequence, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = begin; token < end; ++token) {
            const std::int64_t position = op.part.position_of(token, shape.sequence);
            const std::int64_t times = (position + 1) / op.floor;
            if (times == 0) continue;
            const auto factor =
                static_cast<W>(1 + op.scale * std::log1p(static_cast<double>(times)));
            for (std::int64_t sample = 0; sample < shape.batch; ++sample)
                for (std::int64_t column = 0; column < width; column += kPiece) {
                    const std::int64_t n = std::min(kPiece, width - column);
                    const std::int64_t at =
                        (sample * shape.sequence + token) * shape.qkv_width() + column;
                    Space<W> space;
                    convert_from(op.qkv, at, n, space.at);
                    Array<W>(space.at, n) *= factor;
                    convert_to(op.qkv, at, n, space.at);
                }
        }
    });
}

}  // namespace

void temper_queries(const TemperQueries& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { temper_queries_as<decltype(w)>(op, team); });
}

void rope(const Rope& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { rope_as<decltype(w)>(op, 1, team); });
}

void rope_backward(const RopeBackward& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { rope_as<decltype(w)>(op, -1, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
