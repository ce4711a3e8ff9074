// latent_heads and latent_heads_backward.
#include <cmath>
#include <cstring>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/attention_heads.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Cosines and sines of a position, times the scale of what is turned.
template <typename W>
struct Angles {
    Space<W> cosine, sine;
};

template <typename W>
class Turning {
  public:
    Turning(const LatentHeads& op, double direction)
        : op_(op), half_(op.rotary_dim / 2), direction_(direction) {}

    // Angles in fp64, as those of rope.
    void point_at(std::int64_t token, Angles<W>& angles) const {
        const std::int64_t position = op_.part.position_of(token, op_.shape.sequence);
        for (std::int64_t i = 0; i < half_; ++i) {
            const double angle = static_cast<double>(position) * op_.inverse_frequencies[i];
            angles.cosine.at[i] = static_cast<W>(op_.turned_scale * std::cos(angle));
            angles.sine.at[i] = static_cast<W>(op_.turned_scale * direction_ * std::sin(angle));
        }
    }

    void turn(W* elements, const Angles<W>& angles) const {
        const std::int64_t apart = op_.interleaved ? 1 : half_;
        const std::int64_t step = op_.interleaved ? 2 : 1;
        for (std::int64_t i = 0; i < half_; ++i) {
            W& low = elements[i * step];
            W& high = elements[i * step + apart];
            const W cosine = angles.cosine.at[i], sine = angles.sine.at[i];
            const W turned = low * cosine - high * sine;
            high = high * cosine + low * sine;
            low = turned;
        }
    }

  private:
    const LatentHeads& op_;
    std::int64_t half_;
    double direction_;
};

// First elements of a row's head in each tensor.
struct HeadPlaces {
    std::int64_t q, kv;              // where heads lie apart
    std::int64_t query, key, value;  // … and packed
};

struct LatentRow {
    const LatentHeads& op;
    std::int64_t number;

    std::int64_t rotary_keys() const { return number * op.rotary_dim; }
    HeadPlaces head(std::int64_t head) const {
        const AttentionShape& shape = op.shape;
        const std::int64_t packed = number * shape.qkv_width();
        const std::int64_t among = number * shape.heads + head;
        return {among * shape.head_dim, among * (op.plain_dim + shape.values()),
                packed + query_columns(shape, head).first, packed + key_columns(shape, head).first,
                packed + value_columns(shape, head).first};
    }
};

template <typename W, typename Row>
void for_rows(const LatentHeads& op, double direction, Team& team, const Row& each) {
    ORRERY_CHECK(op.rotary_dim <= kPiece, "what is turned of a head is at most 1024 wide");
    const Turning<W> turning(op, direction);
    team.parallel_for(op.shape.sequence, 16, [&](std::int64_t begin, std::int64_t end) {
        Angles<W> angles;
        for (std::int64_t token = begin; token < end; ++token) {
            turning.point_at(token, angles);
            for (std::int64_t sample = 0; sample < op.shape.batch; ++sample)
                each(LatentRow{op, sample * op.shape.sequence + token},
                     [&](W* elements) { turning.turn(elements, angles); });
        }
    });
}

// Elements as they are, from one tensor to another of its type.
void copy(const Buffer& from, std::int64_t at, const Buffer& to, std::int64_t to_at,
          std::int64_t elements) {
    const auto bytes = static_cast<std::int64_t>(plan::size_bytes(from.dtype));
    std::memcpy(static_cast<std::byte*>(to.data) + to_at * bytes,
                static_cast<const std::byte*>(from.data) + at * bytes,
                static_cast<std::size_t>(elements * bytes));
}

template <typename W>
void latent_heads_as(const LatentHeads& op, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t plain = op.plain_dim, turned = op.rotary_dim, values = shape.values();
    for_rows<W>(op, 1, team, [&](const LatentRow& row, const auto& turn) {
        Space<W> key, query;
        convert_from(op.rotary_keys, row.rotary_keys(), turned, key.at);
        turn(key.at);
        for (std::int64_t head = 0; head < shape.heads; ++head) {
            const HeadPlaces at = row.head(head);
            copy(op.q, at.q, op.qkv, at.query, plain);
            convert_from(op.q, at.q + plain, turned, query.at);
            turn(query.at);
            convert_to(op.qkv, at.query + plain, turned, query.at);
            copy(op.kv, at.kv, op.qkv, at.key, plain);
            convert_to(op.qkv, at.key + plain, turned, key.at);
            copy(op.kv, at.kv + plain, op.qkv, at.value, values);
        }
    });
}

template <typename W>
void latent_heads_backward_as(const LatentHeads& op, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t plain = op.plain_dim, turned = op.rotary_dim, values = shape.values();
    for_rows<W>(op, -1, team, [&](const LatentRow& row, const auto& turn) {
        Space<W> keys, part;
        Array<W>(keys.at, turned).setZero();
        for (std::int64_t head = 0; head < shape.heads; ++head) {
            const HeadPlaces at = row.head(head);
            copy(op.qkv, at.query, op.q, at.q, plain);
            convert_from(op.qkv, at.query + plain, turned, part.at);
            turn(part.at);
            convert_to(op.q, at.q + plain, turned, part.at);
            copy(op.qkv, at.key, op.kv, at.kv, plain);
            convert_from(op.qkv, at.key + plain, turned, part.at);
            Array<W>(keys.at, turned) += ConstArray<W>(part.at, turned);
            copy(op.qkv, at.value, op.kv, at.kv + plain, values);
        }
        turn(keys.at);
        convert_to(op.rotary_keys, row.rotary_keys(), turned, keys.at);
    });
}

}  // namespace

void latent_heads(const LatentHeads& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { latent_heads_as<decltype(w)>(op, team); });
}

void latent_heads_backward(const LatentHeadsBackward& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { latent_heads_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
