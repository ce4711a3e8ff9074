#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

struct Case {
    std::string name;
    AttentionShape shape;
    std::int64_t window = 0;
    bool slopes = false;
    double p = 0;
};

// 300 keys cross the edges of tiles of 128 queries and of 256 keys.
const Case kCases[] = {
    {"plain", {2, 37, 3, 3, 8}},
    {"tiles", {1, 300, 2, 2, 5}},
    {"one key", {2, 1, 2, 1, 4}},
    {"grouped", {1, 40, 6, 2, 4}},
    {"window", {1, 300, 2, 1, 4}, 17},
    {"wide window", {1, 300, 1, 1, 4}, 270},
    {"slopes", {2, 270, 2, 2, 4}, 0, true},
    {"dropout", {2, 263, 4, 2, 4}, 0, false, 0.3},
    {"all", {1, 300, 4, 2, 8}, 100, true, 0.1},
    {"narrow values", {2, 37, 3, 3, 8, 5}},
    {"wide values", {1, 300, 4, 2, 3, 9}},
    {"all of narrow values", {1, 270, 4, 2, 7, 4}, 100, true, 0.1},
};
constexpr double kScale = 0.4;
constexpr double kSlopes[] = {0.5, 0.25, 0.125, 0.0625};

AttentionMask mask_of(const Case& c) {
    return {c.window, c.slopes ? kSlopes : nullptr};
}

// A rank with some of the heads of some of the samples.
AttentionDropout dropout_of(const Case& c) {
    return {{{12345, 6, 7}, c.p}, 3, 2, 9};
}

std::size_t rows_of(const Case& c) {
    return static_cast<std::size_t>(c.shape.batch * c.shape.sequence);
}
std::size_t qkv_size(const Case& c) {
    return rows_of(c) * static_cast<std::size_t>(c.shape.qkv_width());
}
std::size_t context_size(const Case& c) {
    return rows_of(c) * static_cast<std::size_t>(c.shape.context_width());
}
std::size_t maps_size(const Case& c) {
    return static_cast<std::size_t>(c.shape.maps() * c.shape.sequence * c.shape.sequence);
}

Values qkv_of(const Case& c) {
    return exact_numbers(static_cast<std::int64_t>(qkv_size(c)), 1);
}

// Of one query: softmax of its scores over the keys it sees, dropout, and the sum of values.
void attend(const Case& c, const Values& qkv, std::int64_t sample, std::int64_t head,
            std::int64_t query, double* context, double& lse) {
    const AttentionShape& shape = c.shape;
    const std::int64_t s = shape.sequence, d = shape.head_dim, values = shape.values();
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const auto element = [&](std::int64_t position, std::int64_t column) {
        return qkv[static_cast<std::size_t>((sample * s + position) * shape.qkv_width() + column)];
    };
    std::vector<double> scores;
    const std::int64_t first = c.window > 0 && query - c.window + 1 > 0 ? query - c.window + 1 : 0;
    double sum = 0;
    for (std::int64_t key = first; key <= query; ++key) {
        double score = 0;
        for (std::int64_t i = 0; i < d; ++i)
            score += kScale * element(query, head * d + i) *
                     element(key, (shape.heads + kv_head) * d + i);
        if (c.slopes) score += kSlopes[head] * static_cast<double>(key - query);
        scores.push_back(score);
        sum += std::exp(score);
    }
    lse = std::log(sum);
    const AttentionDropout dropout = dropout_of(c);
    for (std::int64_t key = first; key <= query; ++key) {
        const std::int64_t index =
            (((dropout.first_sample + sample) * dropout.total_heads + dropout.first_head + head) *
                 s +
             query) *
                s +
            key;
        const bool kept =
            random_word(dropout.key.random, static_cast<std::uint64_t>(index)) >= c.p * 0x1p32;
        const double p =
            kept ? std::exp(scores[static_cast<std::size_t>(key - first)]) / sum / (1 - c.p) : 0;
        for (std::int64_t i = 0; i < values; ++i)
            context[i] +=
                p * element(key, (shape.heads + shape.kv_heads) * d + kv_head * values + i);
    }
}

// Context and lse by plain loops.
std::vector<Values> attention_by_loops(const Case& c, const Values& qkv) {
    const AttentionShape& shape = c.shape;
    Values context(context_size(c)), lse;
    for (std::int64_t sample = 0; sample < shape.batch; ++sample)
        for (std::int64_t head = 0; head < shape.heads; ++head)
            for (std::int64_t query = 0; query < shape.sequence; ++query) {
                const std::int64_t row = sample * shape.sequence + query;
                lse.push_back(0);
                attend(c, qkv, sample, head, query,
                       context.data() + (row * shape.heads + head) * shape.values(), lse.back());
            }
    return {context, lse};
}

std::vector<Tensor> flash(const World& world, const Case& c, const Values& qkv) {
    const Tensor tqkv = world.in(qkv), context = world.out(context_size(c));
    const Tensor lse = world.work_out(static_cast<std::size_t>(c.shape.maps() * c.shape.sequence));
    world.table.attention(
        {c.shape, mask_of(c), dropout_of(c), kScale, tqkv.buffer(), context.buffer(), lse.buffer()},
        world.team);
    return {context, lse};
}

std::vector<Tensor> flash_backward(const World& world, const Case& c, const Values& qkv,
                                   const Values& dcontext) {
    const std::vector<Tensor> forward = flash(world, c, qkv);
    const Tensor tqkv = world.in(qkv), dc = world.in(dcontext), dqkv = world.out(qkv.size());
    world.table.attention_backward(
        {c.shape, mask_of(c), dropout_of(c), kScale, dc.buffer(), tqkv.buffer(),
         forward[0].buffer(), forward[1].buffer(), dqkv.buffer()},
        world.team);
    return {dqkv};
}

TEST(Attention, IsSoftmaxByPlainLoops) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Values qkv = qkv_of(c);
        const Computation run = [&](const World& world) { return flash(world, c, qkv); };
        const std::vector<Values> found = in_fp64(run), expected = attention_by_loops(c, qkv);
        // Scores up to some tens are off by as many roundings, and so by as much are exponentials.
        expect_equal_in_fp64(found[0], expected[0], 1000);
        expect_equal_in_fp64(found[1], expected[1], 1000);
        expect_everywhere(run, 1000);
    }
}

TEST(Attention, BackwardIsTheGradient) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Values qkv = qkv_of(c);
        const Values dcontext = exact_numbers(static_cast<std::int64_t>(context_size(c)), 2);
        const Computation run = [&](const World& world) {
            return flash_backward(world, c, qkv, dcontext);
        };
        expect_gradient(
            [&](const Values& x) {
                return dot(dcontext,
                           in_fp64([&](const World& world) { return flash(world, c, x); })[0]);
            },
            qkv, in_fp64(run)[0]);
    }
}

// From a context and lse that every type holds exactly: backward reads them, and would show what
// rounding them to 16 bits lost.
TEST(Attention, BackwardIsTheSameEverywhere) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Values qkv = qkv_of(c);
        const Values context = exact_numbers(static_cast<std::int64_t>(context_size(c)), 3);
        const Values dcontext = exact_numbers(static_cast<std::int64_t>(context_size(c)), 2);
        Values lse = attention_by_loops(c, qkv)[1];
        for (double& value : lse)
            value = static_cast<float>(value);
        const Computation run = [&](const World& world) {
            const Tensor tqkv = world.in(qkv), dc = world.in(dcontext);
            const Tensor tcontext = world.in(context), tlse = world.work_in(lse);
            const Tensor dqkv = world.out(qkv.size());
            world.table.attention_backward(
                {c.shape, mask_of(c), dropout_of(c), kScale, dc.buffer(), tqkv.buffer(),
                 tcontext.buffer(), tlse.buffer(), dqkv.buffer()},
                world.team);
            return std::vector{dqkv};
        };
        expect_everywhere(run, 1000);
    }
}

// Scores, softmax, dropout, context as kernels of their own.
struct Unfused {
    Tensor probabilities, dropped, mask, context;
};

ElementIndex map_index(const Case& c) {
    const AttentionDropout dropout = dropout_of(c);
    const auto square = static_cast<std::uint64_t>(c.shape.sequence * c.shape.sequence);
    const auto heads = static_cast<std::uint64_t>(dropout.total_heads);
    return {(static_cast<std::uint64_t>(dropout.first_sample) * heads +
             static_cast<std::uint64_t>(dropout.first_head)) *
                square,
            static_cast<std::uint64_t>(c.shape.heads) * square, heads * square};
}

Unfused unfused(const World& world, const Case& c, const Values& qkv) {
    const Tensor tqkv = world.in(qkv), scores = world.out(maps_size(c));
    Unfused made{world.out(maps_size(c)), world.out(maps_size(c)),
                 Tensor(plan::DType::u8, static_cast<std::int64_t>(maps_size(c))),
                 world.out(context_size(c))};
    const KernelTable& table = world.table;
    table.attention_product(
        {AttentionProductForm::scores, c.shape, kScale, tqkv.buffer(), scores.buffer(), {}, {}},
        world.team);
    table.softmax({c.shape, mask_of(c), scores.buffer(), made.probabilities.buffer()}, world.team);
    table.dropout({static_cast<std::int64_t>(maps_size(c)), dropout_of(c).key, map_index(c),
                   made.probabilities.buffer(), made.dropped.buffer(), made.mask.buffer()},
                  world.team);
    table.attention_product({AttentionProductForm::context,
                             c.shape,
                             kScale,
                             tqkv.buffer(),
                             made.dropped.buffer(),
                             made.context.buffer(),
                             {}},
                            world.team);
    return made;
}

Tensor unfused_backward(const World& world, const Case& c, const Values& qkv,
                        const Values& dcontext, bool stored_mask) {
    const Unfused forward = unfused(world, c, qkv);
    const Tensor tqkv = world.in(qkv), dc = world.in(dcontext), dqkv = world.out(qkv.size());
    const Tensor dp = world.out(maps_size(c));
    const auto product = [&](AttentionProductForm form, const Tensor& maps) {
        world.table.attention_product(
            {form, c.shape, kScale, tqkv.buffer(), maps.buffer(), dc.buffer(), dqkv.buffer()},
            world.team);
    };
    product(AttentionProductForm::probability_gradient, dp);
    product(AttentionProductForm::value_gradient, forward.dropped);
    world.table.dropout_backward(
        {static_cast<std::int64_t>(maps_size(c)), dropout_of(c).key, map_index(c), dp.buffer(),
         dp.buffer(), stored_mask ? forward.mask.buffer() : Buffer{}},
        world.team);
    world.table.softmax_backward(
        {c.shape, dp.buffer(), forward.probabilities.buffer(), dp.buffer()}, world.team);
    product(AttentionProductForm::query_gradient, dp);
    product(AttentionProductForm::key_gradient, dp);
    return dqkv;
}

TEST(Attention, UnfusedIsTheSame) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Values qkv = qkv_of(c);
        const Values dcontext = exact_numbers(static_cast<std::int64_t>(context_size(c)), 2);
        const Values fused = in_fp64([&](const World& world) { return flash(world, c, qkv); })[0];
        expect_equal_in_fp64(in_fp64([&](const World& world) {
                                 return std::vector{unfused(world, c, qkv).context};
                             })[0],
                             fused, 1000);
        const Values gradient =
            in_fp64([&](const World& world) { return flash_backward(world, c, qkv, dcontext); })[0];
        for (const bool stored_mask : {false, true})
            expect_equal_in_fp64(
                in_fp64([&](const World& world) {
                    return std::vector{unfused_backward(world, c, qkv, dcontext, stored_mask)};
                })[0],
                gradient, 10000);
    }
}

// Each kernel of the unfused path from inputs that are exact in every type.
TEST(Attention, UnfusedKernelsAreTheSameEverywhere) {
    for (const Case& c : kCases) {
        SCOPED_TRACE(c.name);
        const Values qkv = qkv_of(c);
        const Values dcontext = exact_numbers(static_cast<std::int64_t>(context_size(c)), 2);
        // Beyond the diagonal both are 0, as softmax and its backward leave them.
        Values maps = exact_numbers(static_cast<std::int64_t>(maps_size(c)), 3);
        const auto s = static_cast<std::size_t>(c.shape.sequence);
        for (std::size_t i = 0; i < maps.size(); ++i)
            if (i % s > i / s % s) maps[i] = 0;
        const Computation run = [&](const World& world) {
            const Tensor tqkv = world.in(qkv), dc = world.in(dcontext), tmaps = world.in(maps);
            const Tensor dqkv = world.out(qkv.size()), context = world.out(dcontext.size());
            const Tensor scores = world.out(maps.size()), dp = world.out(maps.size());
            const Tensor p = world.out(maps.size()), ds = world.out(maps.size());
            const auto product = [&](AttentionProductForm form, const Tensor& to_maps,
                                     const Tensor& rows) {
                world.table.attention_product({form, c.shape, kScale, tqkv.buffer(),
                                               to_maps.buffer(), rows.buffer(), dqkv.buffer()},
                                              world.team);
            };
            product(AttentionProductForm::scores, scores, dc);
            product(AttentionProductForm::context, tmaps, context);
            product(AttentionProductForm::probability_gradient, dp, dc);
            product(AttentionProductForm::value_gradient, tmaps, dc);
            product(AttentionProductForm::query_gradient, tmaps, dc);
            product(AttentionProductForm::key_gradient, tmaps, dc);
            world.table.softmax({c.shape, mask_of(c), tmaps.buffer(), p.buffer()}, world.team);
            world.table.softmax_backward({c.shape, tmaps.buffer(), tmaps.buffer(), ds.buffer()},
                                         world.team);
            return std::vector{scores, context, dp, dqkv, p, ds};
        };
        expect_everywhere(run, 1000);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
