// Products of experts, and the function between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/comm/reduce.hpp"
#include "tests/runtime/cpu/expert_world.hpp"
#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::input_gradient,
                               GemmForm::weight_gradient};

// Of one member that holds all experts, so many rows each.
struct Counts {
    std::vector<std::int32_t> rows;

    ExpertPlaces places() const {
        return {static_cast<std::int64_t>(rows.size()), 1, 1, 0, rows.data()};
    }
    std::int64_t sum() const { return places().received(0); }
};

struct Shape {
    std::int64_t width_in, width_out;
};

GroupedGemm product_of(GemmForm form, const Shape& shape, const Counts& counts) {
    GroupedGemm gemm;
    gemm.form = form;
    gemm.places = counts.places();
    const bool forward = form == GemmForm::forward;
    const bool sums = form == GemmForm::weight_gradient;
    gemm.m = sums ? shape.width_out : counts.sum();
    gemm.n = forward ? shape.width_out : shape.width_in;
    gemm.k = sums ? counts.sum() : forward ? shape.width_in : shape.width_out;
    return gemm;
}

struct Operands {
    Values a, b;
    std::int64_t result = 0;
};
Operands operands_of(const GroupedGemm& op) {
    const std::int64_t experts = op.places.local();
    const bool sums = op.form == GemmForm::weight_gradient;
    return {exact_numbers(op.m * op.k, 1), exact_numbers((sums ? 1 : experts) * op.n * op.k, 2),
            sums ? experts * op.m * op.n : op.m * op.n};
}

// Sums of products of multiples of 1/64 below 4 are exact in fp64
// (tests/runtime/cpu/gemm_test.cpp).
Values plain_product(const GroupedGemm& op, const Operands& operands) {
    Values result(at(operands.result));
    const auto& [a, b, size] = operands;
    std::int64_t first = 0;
    for (std::int64_t e = 0; e < op.places.local(); ++e) {
        const std::int64_t rows = op.places.rows_of(e);
        for (std::int64_t row = first; row < first + rows; ++row) {
            if (op.form == GemmForm::weight_gradient) {
                for (std::int64_t i = 0; i < op.m; ++i)
                    for (std::int64_t j = 0; j < op.n; ++j)
                        result[at((e * op.m + i) * op.n + j)] +=
                            a[at(row * op.m + i)] * b[at(row * op.n + j)];
                continue;
            }
            for (std::int64_t j = 0; j < op.n; ++j)
                for (std::int64_t l = 0; l < op.k; ++l) {
                    const std::int64_t of_b = op.form == GemmForm::forward
                                                  ? (e * op.n + j) * op.k + l
                                                  : (e * op.k + l) * op.n + j;
                    result[at(row * op.n + j)] += a[at(row * op.k + l)] * b[at(of_b)];
                }
        }
        first += rows;
    }
    return result;
}

TEST(GroupedGemm, EachFormIsItsPlainLoop) {
    const Counts all[] = {{{5}}, {{3, 0, 9, 1}}, {{0, 0, 70}}, {{33, 2, 0, 17, 40, 1, 8, 0}}};
    const Shape shapes[] = {{3, 2}, {37, 22}, {65, 130}};
    for (const Counts& counts : all)
        for (const Shape& shape : shapes)
            for (const GemmForm form : kForms) {
                GroupedGemm op = product_of(form, shape, counts);
                const Operands operands = operands_of(op);
                const Computation run = [&](const World& world) {
                    const Tensor a = world.in(operands.a), b = world.in(operands.b);
                    const Tensor c = world.out(at(operands.result));
                    op.a = a.buffer();
                    op.b = b.buffer();
                    op.c = c.buffer();
                    world.table.grouped_gemm(op, world.team);
                    return std::vector{c};
                };
                EXPECT_EQ(in_fp64(run)[0], plain_product(op, operands));
                expect_everywhere(run, 2.0 * 130);
            }
}

TEST(GroupedGemm, AddsToGradientsInTheirTypeAndLeavesThoseOfIdleExperts) {
    const Counts counts{{4, 0, 7}};
    GroupedGemm op = product_of(GemmForm::weight_gradient, {12, 10}, counts);
    const Operands operands = operands_of(op);
    const Values before = exact_numbers(operands.result, 3);
    Values expected = plain_product(op, operands);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] += before[i];
    Team team(2);
    const Tensor a(DType::bf16, operands.a), b(DType::bf16, operands.b), c(DType::fp32, before);
    op.a = a.buffer();
    op.b = b.buffer();
    op.c = c.buffer();
    op.accumulate = true;
    kernels().grouped_gemm(op, team);
    EXPECT_EQ(c.values(), expected);  // below 2^12 in multiples of 2^-12: exact in fp32
}

Values waves(std::int64_t n, std::uint32_t seed) {
    Values values;
    for (std::int64_t i = 0; i < n; ++i)
        values.push_back(std::sin(static_cast<double>(seed + 1) * (1.7 + static_cast<double>(i))));
    return values;
}

// Of the rows that have come to a member, by expert, those of one member.
struct RowsOfSource {
    Counts counts;
    Values dy, x;
};
RowsOfSource rows_of(const ExpertPlaces& places, std::int64_t source, const Values& dy,
                     const Values& x) {
    RowsOfSource alone;
    const std::int64_t rows = places.received(places.member);
    const auto append = [&](const Values& all, std::int64_t first, std::int64_t count, Values& to) {
        const auto width = rows > 0 ? static_cast<std::int64_t>(all.size()) / rows : 0;
        to.insert(to.end(), all.begin() + first * width, all.begin() + (first + count) * width);
    };
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < places.local(); ++i)
        for (std::int64_t from = 0; from < places.ranks; ++from) {
            const std::int64_t count = places.count(from, places.first_of(places.member) + i);
            if (from == source) {
                alone.counts.rows.push_back(static_cast<std::int32_t>(count));
                append(dy, first, count, alone.dy);
                append(x, first, count, alone.x);
            }
            first += count;
        }
    return alone;
}

// Gradients of weights and of biases, all numbers of the first, then those of the second.
Values gradients_of(const ExpertPlaces& places, const Values& dy, const Values& x, bool by_source) {
    const std::int64_t n = 12, k = 10, rows = places.received(places.member);
    const std::int64_t sums = places.local() * (by_source ? places.ranks : 1);
    Team team(2);
    const Tensor tdy(DType::bf16, dy), tx(DType::bf16, x), c(DType::fp32, sums * n * k),
        biases(DType::fp32, sums * n);
    kernels().grouped_gemm({GemmForm::weight_gradient, n, k, rows, places, tdy.buffer(),
                            tx.buffer(), c.buffer(), false, by_source},
                           team);
    kernels().expert_bias_backward(
        {n, places, tdy.buffer(), {}, {}, biases.buffer(), {}, false, by_source}, team);
    Values all = c.values();
    const Values of_biases = biases.values();
    all.insert(all.end(), of_biases.begin(), of_biases.end());
    return all;
}

// As if no other rank had any rows: bit for bit those of a rank that holds all experts itself.
TEST(ExpertGradientsBySource, AreWhatEachRankHasAlone) {
    for (const ExpertGroup& group : some_groups())
        for (std::int64_t member = 0; member < group.ranks; ++member) {
            const ExpertPlaces places = group.places(member);
            const std::int64_t rows = places.received(member), local = places.local();
            const Values dy = exact_numbers(rows * 12, 1), x = exact_numbers(rows * 10, 2);
            const Values by_source = gradients_of(places, dy, x, true);
            Values weights, biases;
            for (std::int64_t source = 0; source < group.ranks; ++source) {
                const RowsOfSource alone = rows_of(places, source, dy, x);
                const Values of_one = gradients_of(alone.counts.places(), alone.dy, alone.x, false);
                const auto matrices = of_one.begin() + local * 12 * 10;
                weights.insert(weights.end(), of_one.begin(), matrices);
                biases.insert(biases.end(), matrices, of_one.end());
            }
            weights.insert(weights.end(), biases.begin(), biases.end());
            EXPECT_EQ(by_source, weights);
        }
}

// As collectives sum what ranks have: (0 + 1) + (2 + 3). 2^24 + 1 is 2^24 in fp32.
TEST(SumSources, AddsNeighboursThenTheirSums) {
    const double large = 0x1p24;
    const auto sum = [](const Values& sources) {
        Team team(2);
        const Tensor x(DType::fp32, sources), y(DType::fp32, std::int64_t{1});
        kernels().sum_sources(
            {1, static_cast<std::int64_t>(sources.size()), x.buffer(), y.buffer()}, team);
        return y.values()[0];
    };
    EXPECT_EQ(sum({3}), 3);
    EXPECT_EQ(sum({large, 1}), large);
    EXPECT_EQ(sum({large, 1, 1, 1}), large + 2);
    EXPECT_EQ(sum({large, -large, 1, 1}), 2);
    EXPECT_EQ(sum({large, 0, 1, 1, 1, 1, 0, -large}), 4);  // (large + 2) + (2 − large)
}

TEST(SumSources, IsTheReductionOfRanks) {
    Team team(3);
    for (const DType dtype : {DType::fp32, DType::fp64})
        for (const std::int64_t sources : {1, 2, 4, 8, 32})
            for (const std::int64_t elements : {1, 7, 1000, 5003}) {
                const Tensor x(dtype, waves(sources * elements, 3)), y(dtype, elements),
                    expected(dtype, elements);
                kernels().sum_sources({elements, sources, x.buffer(), y.buffer()}, team);
                std::vector<const void*> addends;
                for (std::int64_t source = 0; source < sources; ++source)
                    addends.push_back(static_cast<const std::byte*>(x.buffer().data) +
                                      source * elements * plan::size_bytes(dtype));
                reduce(dtype, Reduction::sum, addends, 0, elements, expected.buffer().data);
                EXPECT_EQ(y.bytes(), expected.bytes());
            }
}

// Numbers that round: what a row becomes must not tell who else is there.
TEST(GroupedGemm, ARowsBitsDependOnTheRowAndTheMatrixAlone) {
    const Shape shapes[] = {{2, 3}, {8, 4}, {16, 24}, {31, 57}, {129, 100}, {520, 199}};
    std::vector<const KernelTable*> tables = {&baseline_kernels()};
    if (v3_kernels() != nullptr) tables.push_back(v3_kernels());
    Team team(2);
    for (const KernelTable* table : tables)
        for (const DType dtype : {DType::bf16, DType::fp32, DType::fp64})
            for (const Shape& shape : shapes)
                for (const GemmForm form : {GemmForm::forward, GemmForm::input_gradient}) {
                    const std::int64_t in =
                        form == GemmForm::forward ? shape.width_in : shape.width_out;
                    const Tensor weights(dtype, waves(shape.width_in * shape.width_out, 1));
                    const Values row = waves(in, 2);
                    Tensor first(dtype, std::int64_t{0});
                    // The row stands at `place` of so many.
                    const std::int32_t rows[] = {1, 2, 3, 5, 8, 30, 515};
                    for (const std::int32_t count : rows)
                        for (const std::int64_t place : {0, count / 2, count - 1}) {
                            const Counts counts{{count}};
                            GroupedGemm op = product_of(form, shape, counts);
                            Values x = waves(op.m * op.k, 3);
                            std::copy(row.begin(), row.end(), x.begin() + place * in);
                            const Tensor a(dtype, x), c(dtype, op.m * op.n);
                            op.a = a.buffer();
                            op.b = weights.buffer();
                            op.c = c.buffer();
                            table->grouped_gemm(op, team);
                            const Values all = c.values();
                            const Tensor found(dtype, Values(all.begin() + place * op.n,
                                                             all.begin() + (place + 1) * op.n));
                            if (first.bytes().empty()) first = found;
                            ASSERT_EQ(found.bytes(), first.bytes())
                                << table->instruction_set << " " << plan::name(dtype) << " "
                                << shape.width_in << " × " << shape.width_out << ", row " << place
                                << " of " << count;
                        }
                }
}

// One expert that has all rows is a dense layer, bit for bit: for as many rows as a vector's
// lanes go into, those left over are added up in another order.
TEST(GroupedGemm, OfOneExpertIsGemm) {
    Team team(2);
    for (const DType dtype : {DType::bf16, DType::fp32, DType::fp64})
        for (const Shape& shape : {Shape{48, 36}, Shape{129, 100}, Shape{520, 199}})
            for (const GemmForm form : kForms)
                for (const std::int32_t rows : {16, 64, 516}) {
                    const Counts counts{{rows}};
                    GroupedGemm op = product_of(form, shape, counts);
                    const Tensor a(dtype, waves(op.m * op.k, 1));
                    const Tensor b(dtype, waves(op.n * op.k, 2));
                    const Tensor c(dtype, op.m * op.n), dense(dtype, op.m * op.n);
                    op.a = a.buffer();
                    op.b = b.buffer();
                    op.c = c.buffer();
                    kernels().grouped_gemm(op, team);
                    kernels().gemm({form, op.m, op.n, op.k, op.a, op.b, {}, dense.buffer()}, team);
                    EXPECT_EQ(c.bytes(), dense.bytes())
                        << plan::name(dtype) << " " << rows << " rows";
                }
}

constexpr ActivationForm kActivations[] = {
    ActivationForm::gelu_tanh,    ActivationForm::gelu_erf,      ActivationForm::relu,
    ActivationForm::squared_relu, ActivationForm::swiglu,        ActivationForm::geglu_tanh,
    ActivationForm::geglu_erf,    ActivationForm::clamped_swiglu};
constexpr double kLimit = 0.3;  // of the last, between the numbers that are tried

bool gated(ActivationForm form) {
    return form >= ActivationForm::swiglu;
}

double f(ActivationForm form, double x) {
    switch (form) {
        case ActivationForm::gelu_tanh:
        case ActivationForm::geglu_tanh:
            return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case ActivationForm::gelu_erf:
        case ActivationForm::geglu_erf:
            return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
        case ActivationForm::relu:
            return std::max(x, 0.0);
        case ActivationForm::squared_relu:
            return std::max(x, 0.0) * std::max(x, 0.0);
        case ActivationForm::swiglu:
            return x / (1 + std::exp(-x));
        case ActivationForm::clamped_swiglu:
            return std::min(x, kLimit) / (1 + std::exp(-1.702 * std::min(x, kLimit)));
    }
    return 0;
}

Values plain_activation(ActivationForm form, std::int64_t width, const Values& x,
                        const Values& weights) {
    Values y;
    const std::int64_t pitch = gated(form) ? 2 * width : width;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(weights.size()); ++row)
        for (std::int64_t i = 0; i < width; ++i) {
            double up = gated(form) ? x[at(row * pitch + width + i)] : 1;
            if (form == ActivationForm::clamped_swiglu) up = 1 + std::clamp(up, -kLimit, kLimit);
            y.push_back(f(form, x[at(row * pitch + i)]) * up * weights[at(row)]);
        }
    return y;
}

constexpr std::int64_t kWidth = 1031;

TEST(ExpertActivation, IsTheFunctionTimesTheRowsWeight) {
    const Counts counts{{3, 0, 4}};
    const std::int64_t rows = counts.sum();
    for (const ActivationForm form : kActivations) {
        const Values x = exact_numbers(rows * kWidth * (gated(form) ? 2 : 1), 1);
        const Values weights = exact_numbers(rows, 2);
        const Computation run = [&](const World& world) {
            const Tensor tx = world.in(x), tweights = world.work_in(weights);
            const Tensor y = world.out(at(rows * kWidth));
            world.table.expert_activation(
                {form, kWidth, kLimit, counts.places(), tx.buffer(), tweights.buffer(), y.buffer()},
                world.team);
            return std::vector{y};
        };
        expect_equal_in_fp64(in_fp64(run)[0], plain_activation(form, kWidth, x, weights), 20);
        expect_everywhere(run, 40);
    }
}

TEST(ExpertActivation, BackwardIsItsGradient) {
    const Counts counts{{3, 0, 4}};
    const std::int64_t rows = counts.sum();
    Team team(2);
    const World world{baseline_kernels(), team, DType::fp64};
    for (const ActivationForm form : kActivations) {
        const std::int64_t inputs = kWidth * (gated(form) ? 2 : 1);
        // Away from relu's kink.
        Values x = exact_numbers(rows * inputs, 1);
        for (double& value : x)
            value += value == 0 ? 1.0 / 64 : 0;
        const Values weights = exact_numbers(rows, 2), dy = exact_numbers(rows * kWidth, 3);
        const Tensor tdy = world.in(dy), tx = world.in(x), tweights = world.in(weights);
        const Tensor dx = world.out(x.size()), dweights = world.out(weights.size());
        world.table.expert_activation_backward(
            {form, kWidth, kLimit, counts.places(), tdy.buffer(), tx.buffer(), tweights.buffer(),
             dx.buffer(), dweights.buffer()},
            team);
        expect_gradient(
            [&](const Values& at_x) {
                return dot(dy, plain_activation(form, kWidth, at_x, weights));
            },
            x, dx.values());
        expect_gradient(
            [&](const Values& at_w) { return dot(dy, plain_activation(form, kWidth, x, at_w)); },
            weights, dweights.values());
        const Computation run = [&](const World& here) {
            const Tensor a = here.in(dy), b = here.in(x), c = here.work_in(weights);
            const Tensor to_x = here.out(x.size()), to_weights = here.work_out(weights.size());
            here.table.expert_activation_backward(
                {form, kWidth, kLimit, counts.places(), a.buffer(), b.buffer(), c.buffer(),
                 to_x.buffer(), to_weights.buffer()},
                here.team);
            return std::vector{to_x, to_weights};
        };
        expect_everywhere(run, 2.0 * kWidth);
    }
}

Values plain_gate(const Values& x, const Values& logits) {
    Values y;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(logits.size()); ++row)
        for (std::int64_t i = 0; i < kWidth; ++i)
            y.push_back(x[at(row * kWidth + i)] / (1 + std::exp(-logits[at(row)])));
    return y;
}

TEST(GateRows, AreTimesTheSigmoidOfTheirLogits) {
    constexpr std::int64_t kRows = 5;
    const Values x = exact_numbers(kRows * kWidth, 1), logits = exact_numbers(kRows, 2);
    const Computation run = [&](const World& world) {
        const Tensor tx = world.in(x), tlogits = world.work_in(logits);
        const Tensor y = world.out(at(kRows * kWidth));
        world.table.gate_rows({kRows, kWidth, tx.buffer(), tlogits.buffer(), y.buffer()},
                              world.team);
        return std::vector{y};
    };
    expect_equal_in_fp64(in_fp64(run)[0], plain_gate(x, logits), 20);
    expect_everywhere(run, 40);
}

TEST(GateRows, BackwardIsItsGradient) {
    constexpr std::int64_t kRows = 5;
    Team team(2);
    const World world{baseline_kernels(), team, DType::fp64};
    const Values x = exact_numbers(kRows * kWidth, 1), logits = exact_numbers(kRows, 2),
                 dy = exact_numbers(kRows * kWidth, 3);
    const Tensor tdy = world.in(dy), tx = world.in(x), tlogits = world.in(logits);
    const Tensor dx = world.out(x.size()), dlogits = world.out(logits.size());
    world.table.gate_rows_backward(
        {kRows, kWidth, tdy.buffer(), tx.buffer(), tlogits.buffer(), dx.buffer(), dlogits.buffer()},
        team);
    expect_gradient([&](const Values& at_x) { return dot(dy, plain_gate(at_x, logits)); }, x,
                    dx.values());
    expect_gradient([&](const Values& at_l) { return dot(dy, plain_gate(x, at_l)); }, logits,
                    dlogits.values());
    const Computation run = [&](const World& here) {
        const Tensor a = here.in(dy), b = here.in(x), c = here.work_in(logits);
        const Tensor to_x = here.out(x.size()), to_logits = here.work_out(logits.size());
        here.table.gate_rows_backward(
            {kRows, kWidth, a.buffer(), b.buffer(), c.buffer(), to_x.buffer(), to_logits.buffer()},
            here.team);
        return std::vector{to_x, to_logits};
    };
    expect_everywhere(run, 2.0 * kWidth);
}

// The rows of a Counts, in order: which expert each is of.
std::vector<std::int64_t> experts_of(const Counts& counts) {
    std::vector<std::int64_t> of;
    for (std::size_t expert = 0; expert < counts.rows.size(); ++expert)
        of.insert(of.end(), at(counts.rows[expert]), static_cast<std::int64_t>(expert));
    return of;
}

Values plain_bias(const Counts& counts, const Values& x, const Values& biases,
                  const Values& weights) {
    const std::vector<std::int64_t> of = experts_of(counts);
    Values y;
    for (std::size_t row = 0; row < of.size(); ++row)
        for (std::int64_t i = 0; i < kWidth; ++i)
            y.push_back(x[row * at(kWidth) + at(i)] +
                        (weights.empty() ? 1 : weights[row]) * biases[at(of[row] * kWidth + i)]);
    return y;
}

TEST(ExpertBias, IsAddedTimesTheRowsWeight) {
    const Counts counts{{3, 0, 4}};
    const std::int64_t rows = counts.sum();
    const Values x = exact_numbers(rows * kWidth, 1), biases = exact_numbers(3 * kWidth, 2);
    for (const bool weighs : {false, true}) {
        const Values weights = weighs ? exact_numbers(rows, 3) : Values{};
        const Computation run = [&](const World& world) {
            const Tensor tx = world.in(x), tbiases = world.in(biases);
            const Tensor tweights = world.work_in(exact_numbers(rows, 3));
            const Tensor y = world.out(at(rows * kWidth));
            ExpertBias op{kWidth, counts.places(), tx.buffer(), tbiases.buffer(), {}, y.buffer()};
            if (weighs) op.weights = tweights.buffer();
            world.table.expert_bias(op, world.team);
            return std::vector{y};
        };
        expect_equal_in_fp64(in_fp64(run)[0], plain_bias(counts, x, biases, weights), 1);
        expect_everywhere(run, 2);
    }
}

TEST(ExpertBias, BackwardIsItsGradientAndAdds) {
    const Counts counts{{3, 0, 4}};
    const std::int64_t rows = counts.sum();
    Team team(2);
    const World world{baseline_kernels(), team, DType::fp64};
    const Values x = exact_numbers(rows * kWidth, 1), biases = exact_numbers(3 * kWidth, 2),
                 weights = exact_numbers(rows, 3), dy = exact_numbers(rows * kWidth, 4),
                 before = exact_numbers(3 * kWidth, 5);
    for (const bool weighs : {false, true})
        for (const bool accumulates : {false, true}) {
            const Values used = weighs ? weights : Values{};
            const Computation run = [&](const World& here) {
                const Tensor tdy = here.in(dy), tbiases = here.in(biases);
                const Tensor tweights = here.work_in(weights);
                const Tensor dbiases = accumulates ? here.in(before) : here.out(biases.size());
                const Tensor dweights = here.work_out(weights.size());
                ExpertBiasBackward op{kWidth, counts.places(),  tdy.buffer(), {},
                                      {},     dbiases.buffer(), {},           accumulates};
                if (weighs) {
                    op.weights = tweights.buffer();
                    op.biases = tbiases.buffer();
                    op.dweights = dweights.buffer();
                }
                here.table.expert_bias_backward(op, here.team);
                std::vector<Tensor> made = {dbiases};
                if (weighs) made.push_back(dweights);
                return made;
            };
            const std::vector<Tensor> made = run(world);
            Values dbiases = made[0].values();
            for (std::size_t i = 0; accumulates && i < dbiases.size(); ++i)
                dbiases[i] -= before[i];
            expect_gradient(
                [&](const Values& at_b) { return dot(dy, plain_bias(counts, x, at_b, used)); },
                biases, dbiases);
            if (weighs)
                expect_gradient(
                    [&](const Values& at_w) {
                        return dot(dy, plain_bias(counts, x, biases, at_w));
                    },
                    weights, made[1].values());
            expect_everywhere(run, 2.0 * kWidth);
        }
}

TEST(WeighRows, AreTimesTheirWeightsAndBackwardIsTheGradient) {
    const Counts counts{{3, 0, 4}};
    const std::int64_t rows = counts.sum();
    const Values x = exact_numbers(rows * kWidth, 1), weights = exact_numbers(rows, 2),
                 dy = exact_numbers(rows * kWidth, 3);
    const auto plain = [&](const Values& of, const Values& by) {
        Values y;
        for (std::size_t i = 0; i < of.size(); ++i)
            y.push_back(of[i] * by[i / at(kWidth)]);
        return y;
    };
    const Computation run = [&](const World& here) {
        const Tensor tx = here.in(x), tweights = here.work_in(weights), tdy = here.in(dy);
        const Tensor y = here.out(x.size()), dx = here.out(x.size());
        const Tensor dweights = here.work_out(weights.size());
        here.table.weigh_rows({kWidth, counts.places(), tx.buffer(), tweights.buffer(), y.buffer()},
                              here.team);
        here.table.weigh_rows_backward({kWidth, counts.places(), tdy.buffer(), tx.buffer(),
                                        tweights.buffer(), dx.buffer(), dweights.buffer()},
                                       here.team);
        return std::vector{y, dx, dweights};
    };
    const std::vector<Values> made = in_fp64(run);
    EXPECT_EQ(made[0], plain(x, weights));
    expect_gradient([&](const Values& at_x) { return dot(dy, plain(at_x, weights)); }, x, made[1]);
    expect_gradient([&](const Values& at_w) { return dot(dy, plain(x, at_w)); }, weights, made[2]);
    expect_everywhere(run, 2.0 * kWidth);
}

// Of weights that are 1, or of none, it is the dense activation, bit for bit, forward and back.
TEST(ExpertActivation, OfWeightsOneIsActivation) {
    const Counts counts{{5}};
    Team team(1);
    for (const DType dtype : {DType::bf16, DType::fp32, DType::fp64})
        for (const ActivationForm form :
             {ActivationForm::swiglu, ActivationForm::geglu_tanh, ActivationForm::clamped_swiglu}) {
            const Tensor x(dtype, waves(10 * kWidth, 1));
            const Tensor dy(dtype, waves(5 * kWidth, 2));
            const DType wide = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
            const Tensor ones(wide, Values(5, 1.0)), dweights(wide, 5);
            const Tensor y(dtype, 5 * kWidth), dense_y(dtype, 5 * kWidth);
            const Tensor dx(dtype, 10 * kWidth), dense_dx(dtype, 10 * kWidth);
            const KernelTable& table = kernels();
            table.expert_activation(
                {form, kWidth, kLimit, counts.places(), x.buffer(), ones.buffer(), y.buffer()},
                team);
            table.activation({form, 5, kWidth, x.buffer(), dense_y.buffer(), {}, kLimit}, team);
            EXPECT_EQ(y.bytes(), dense_y.bytes());
            const Tensor unweighed(dtype, 5 * kWidth);
            table.expert_activation(
                {form, kWidth, kLimit, counts.places(), x.buffer(), {}, unweighed.buffer()}, team);
            EXPECT_EQ(unweighed.bytes(), dense_y.bytes());
            table.expert_activation_backward(
                {form, kWidth, kLimit, counts.places(), dy.buffer(), x.buffer(), ones.buffer(),
                 dx.buffer(), dweights.buffer()},
                team);
            table.activation_backward(
                {form, 5, kWidth, dy.buffer(), x.buffer(), dense_dx.buffer(), {}, kLimit}, team);
            EXPECT_EQ(dx.bytes(), dense_dx.bytes());
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
