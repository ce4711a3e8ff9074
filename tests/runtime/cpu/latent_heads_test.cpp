// Heads of latents: parts put side by side and turned, by plain loops, and the other way.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

struct Case {
    AttentionShape shape;  // kv_heads = heads
    std::int64_t plain, turned;
    bool interleaved;
    double scale;
};

const Case kCases[] = {{{2, 19, 3, 3, 7, 5}, 3, 4, true, 1},
                       {{1, 33, 2, 2, 8, 8}, 2, 6, false, 1.3},
                       {{2, 5, 4, 4, 10, 3}, 8, 2, true, 0.7}};

// The four tensors' rows, one after another.
struct Parts {
    std::int64_t rows, q, kv, keys, qkv;
};

Parts parts_of(const Case& c) {
    const std::int64_t rows = c.shape.batch * c.shape.sequence;
    return {rows, rows * c.shape.heads * c.shape.head_dim,
            rows * c.shape.heads * (c.plain + c.shape.values()), rows * c.turned,
            rows * c.shape.qkv_width()};
}

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

Values frequencies_of(const Case& c) {
    Values all;
    for (std::int64_t i = 0; i < c.turned / 2; ++i)
        all.push_back(
            std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(c.turned)));
    return all;
}

// Element i of what is turned of a row.
double turned(const Case& c, const Values& from, std::int64_t first, std::int64_t position,
              std::int64_t i) {
    const std::int64_t half = c.turned / 2;
    const std::int64_t pair = c.interleaved ? i / 2 : i % half;
    const bool is_low = c.interleaved ? i % 2 == 0 : i < half;
    const std::int64_t other =
        c.interleaved ? (is_low ? i + 1 : i - 1) : (is_low ? i + half : i - half);
    const double angle = static_cast<double>(position) * frequencies_of(c)[at(pair)];
    const double sine = is_low ? -std::sin(angle) : std::sin(angle);
    return c.scale * (from[at(first + i)] * std::cos(angle) + from[at(first + other)] * sine);
}

Values packed_by_loops(const Case& c, const Values& q, const Values& kv, const Values& keys) {
    const AttentionShape& shape = c.shape;
    const std::int64_t heads = shape.heads, d = shape.head_dim, values = shape.values();
    Values qkv;
    for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
        const std::int64_t position = row % shape.sequence;
        for (std::int64_t head = 0; head < heads; ++head) {
            const std::int64_t first = (row * heads + head) * d;
            for (std::int64_t i = 0; i < c.plain; ++i)
                qkv.push_back(q[at(first + i)]);
            for (std::int64_t i = 0; i < c.turned; ++i)
                qkv.push_back(turned(c, q, first + c.plain, position, i));
        }
        for (std::int64_t head = 0; head < heads; ++head) {
            for (std::int64_t i = 0; i < c.plain; ++i)
                qkv.push_back(kv[at((row * heads + head) * (c.plain + values) + i)]);
            for (std::int64_t i = 0; i < c.turned; ++i)
                qkv.push_back(turned(c, keys, row * c.turned, position, i));
        }
        for (std::int64_t head = 0; head < heads; ++head)
            for (std::int64_t i = 0; i < values; ++i)
                qkv.push_back(kv[at((row * heads + head) * (c.plain + values) + c.plain + i)]);
    }
    return qkv;
}

LatentHeads request(const Case& c, const Values& frequencies) {
    LatentHeads heads;
    heads.shape = c.shape;
    heads.plain_dim = c.plain;
    heads.rotary_dim = c.turned;
    heads.interleaved = c.interleaved;
    heads.turned_scale = c.scale;
    heads.inverse_frequencies = frequencies.data();
    return heads;
}

TEST(LatentHeads, AreTheirPartsTurned) {
    for (const Case& c : kCases) {
        const Parts parts = parts_of(c);
        const Values frequencies = frequencies_of(c), q = exact_numbers(parts.q, 1),
                     kv = exact_numbers(parts.kv, 2), keys = exact_numbers(parts.keys, 3);
        const Computation run = [&](const World& world) {
            const Tensor tq = world.in(q), tkv = world.in(kv), tkeys = world.in(keys);
            const Tensor qkv = world.out(at(parts.qkv));
            LatentHeads heads = request(c, frequencies);
            heads.q = tq.buffer();
            heads.kv = tkv.buffer();
            heads.rotary_keys = tkeys.buffer();
            heads.qkv = qkv.buffer();
            world.table.latent_heads(heads, world.team);
            return std::vector{qkv};
        };
        expect_equal_in_fp64(in_fp64(run)[0], packed_by_loops(c, q, kv, keys), 6);
        expect_everywhere(run, 6);
    }
}

TEST(LatentHeads, BackwardIsTheGradient) {
    for (const Case& c : kCases) {
        const Parts parts = parts_of(c);
        const Values frequencies = frequencies_of(c), q = exact_numbers(parts.q, 1),
                     kv = exact_numbers(parts.kv, 2), keys = exact_numbers(parts.keys, 3),
                     dqkv = exact_numbers(parts.qkv, 4);
        const Computation run = [&](const World& world) {
            const Tensor tdqkv = world.in(dqkv), dq = world.out(q.size()),
                         dkv = world.out(kv.size()), dkeys = world.out(keys.size());
            LatentHeadsBackward heads{request(c, frequencies)};
            heads.q = dq.buffer();
            heads.kv = dkv.buffer();
            heads.rotary_keys = dkeys.buffer();
            heads.qkv = tdqkv.buffer();
            world.table.latent_heads_backward(heads, world.team);
            return std::vector{dq, dkv, dkeys};
        };
        const std::vector<Values> found = in_fp64(run);
        expect_gradient([&](const Values& x) { return dot(dqkv, packed_by_loops(c, x, kv, keys)); },
                        q, found[0]);
        expect_gradient([&](const Values& x) { return dot(dqkv, packed_by_loops(c, q, x, keys)); },
                        kv, found[1]);
        expect_gradient([&](const Values& x) { return dot(dqkv, packed_by_loops(c, q, kv, x)); },
                        keys, found[2]);
        expect_everywhere(run, 6.0 * static_cast<double>(c.shape.heads));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
