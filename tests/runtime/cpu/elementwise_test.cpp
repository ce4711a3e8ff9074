#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

// More than a part of 16 pieces of 1024, and no whole number of anything.
constexpr std::int64_t kMany = 16 * 1024 + 1031;
constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32, DType::fp64};

TEST(Add, OfAnyTypesAndInPlace) {
    const Values a = exact_numbers(kMany, 1), b = exact_numbers(kMany, 2);
    Values expected = a;
    for (std::size_t i = 0; i < a.size(); ++i)
        expected[i] += b[i];
    Team team(2);
    for (const DType type_a : kTypes)
        for (const DType type_b : kTypes)
            for (const DType type_y : kTypes) {
                const Tensor ta(type_a, a), tb(type_b, b), y(type_y, kMany);
                kernels().add({kMany, ta.buffer(), tb.buffer(), y.buffer()}, team);
                EXPECT_EQ(y.bytes(), Tensor(type_y, expected).bytes());
            }
    expect_everywhere(
        [&](const World& world) {
            const Tensor sum = world.in(a), tb = world.in(b);
            world.table.add({kMany, sum.buffer(), tb.buffer(), sum.buffer()}, world.team);
            return std::vector{sum};
        },
        0);
}

TEST(Cast, RoundsOnce) {
    Values x = exact_numbers(kMany, 1);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] *= 1 + 0x1p-8 * static_cast<double>(i % 7) + 0x1p-40 * static_cast<double>(i % 3);
    // The middle of two neighbours in bf16 and in fp16, and a little above: by way of fp32 to
    // nearest the little would be lost, and both would go down.
    x[0] = 1 + 0x1p-8;
    x[1] = 1 + 0x1p-8 + 0x1p-40;
    x[2] = 1 + 0x1p-11 + 0x1p-40;
    x[3] = -x[1];
    Team team(2);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
        const Tensor from(DType::fp64, x), bf16(DType::bf16, kMany), fp16(DType::fp16, kMany);
        table->cast({kMany, from.buffer(), bf16.buffer()}, team);
        table->cast({kMany, from.buffer(), fp16.buffer()}, team);
        EXPECT_EQ(bf16.values()[0], 1);
        EXPECT_EQ(bf16.values()[1], 1 + 0x1p-7);
        EXPECT_EQ(fp16.values()[2], 1 + 0x1p-10);
        EXPECT_EQ(bf16.values()[3], -1 - 0x1p-7);
        const Values by_bf16 = bf16.values(), by_fp16 = fp16.values();
        for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_LE(std::abs(by_bf16[i] - x[i]), 0x1p-8 * std::abs(x[i]));
            ASSERT_LE(std::abs(by_fp16[i] - x[i]), 0x1p-11 * std::abs(x[i]));
        }
        const Tensor wide(DType::fp32, kMany);
        table->cast({kMany, bf16.buffer(), wide.buffer()}, team);
        EXPECT_EQ(wide.values(), bf16.values());
    }
}

TEST(Cast, KeepsInfinityAndNaN) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Values x = {infinity, -infinity, std::nan(""), 1e30, 1e300, -0.0, 1, 2, 3};
    Team team(1);
    for (const DType from : {DType::fp32, DType::fp64})
        for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
            const Tensor source(from, x), half(DType::fp16, 9), brain(DType::bf16, 9);
            table->cast({9, source.buffer(), half.buffer()}, team);
            table->cast({9, source.buffer(), brain.buffer()}, team);
            EXPECT_EQ(half.values()[0], infinity);
            EXPECT_EQ(half.values()[1], -infinity);
            EXPECT_TRUE(std::isnan(half.values()[2]));
            EXPECT_TRUE(std::isnan(brain.values()[2]));
            EXPECT_EQ(half.values()[3], infinity);
            EXPECT_NEAR(brain.values()[3], 1e30, 1e30 * 0x1p-8);
            EXPECT_EQ(brain.values()[4], infinity);
            EXPECT_TRUE(std::signbit(half.values()[5]));
        }
}

TEST(Fill, WritesAllAndNoMore) {
    expect_everywhere(
        [](const World& world) {
            const Tensor x = world.in(Values(2000, 7));
            world.table.fill({1999, 0.5, x.buffer()}, world.team);
            return std::vector{x};
        },
        0);
    Team team(1);
    const Tensor x(DType::fp32, Values(5, 7));
    kernels().fill({4, -1, x.buffer()}, team);
    EXPECT_EQ(x.values(), (Values{-1, -1, -1, -1, 7}));
}

// Activations by their formulas.
double gelu_tanh(double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_erf(double x) {
    return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
}
double silu(double x) {
    return x / (1 + std::exp(-x));
}
double relu(double x) {
    return x > 0 ? x : 0;
}

double squared_relu(double x) {
    return x > 0 ? x * x : 0;
}

struct Curve {
    ActivationForm form;
    double (*f)(double);
    bool gated;
};
constexpr Curve kCurves[] = {
    {ActivationForm::gelu_tanh, gelu_tanh, false},
    {ActivationForm::gelu_erf, gelu_erf, false},
    {ActivationForm::relu, relu, false},
    {ActivationForm::swiglu, silu, true},
    {ActivationForm::squared_relu, squared_relu, false},
    {ActivationForm::geglu_tanh, gelu_tanh, true},
    {ActivationForm::geglu_erf, gelu_erf, true},
};
constexpr std::int64_t kRows = 21, kWidth = 1037;

Values activation_input(const Curve& curve) {
    Values x = exact_numbers(kRows * kWidth * (curve.gated ? 2 : 1), 1);
    // Where tanh, erf and exp saturate; and away from 0, where relu has no slope.
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % 50 == 0) x[i] *= 32;
        if (curve.form == ActivationForm::relu && x[i] == 0) x[i] = 1;
    }
    return x;
}

Tensor activated(const World& world, const Curve& curve, const Values& x) {
    const Tensor tx = world.in(x);
    Tensor y = world.out(kRows * kWidth);
    world.table.activation({curve.form, kRows, kWidth, tx.buffer(), y.buffer()}, world.team);
    return y;
}

// Rows of [2·width] as two matrices of [width].
std::pair<Values, Values> apart(const Values& packed) {
    std::pair<Values, Values> halves;
    for (std::size_t i = 0; i < packed.size(); ++i)
        (i / kWidth % 2 == 0 ? halves.first : halves.second).push_back(packed[i]);
    return halves;
}

TEST(Activation, FindsGateAndUpApart) {
    for (const Curve& curve : kCurves) {
        if (!curve.gated) continue;
        const Values x = activation_input(curve), given = exact_numbers(kRows * kWidth, 2);
        const auto [gate, up] = apart(x);
        const auto run = [&](bool packed) {
            return in_fp64([&](const World& world) {
                const Tensor first = world.in(packed ? x : gate), second = world.in(up);
                const Tensor dy = world.in(given);
                Tensor y = world.out(kRows * kWidth), dx = world.out(2 * kRows * kWidth);
                Activation forward{curve.form, kRows, kWidth, first.buffer(), y.buffer()};
                ActivationBackward backward{curve.form,  kRows,          kWidth,
                                            dy.buffer(), first.buffer(), dx.buffer()};
                if (!packed) forward.up = backward.up = second.buffer();
                world.table.activation(forward, world.team);
                world.table.activation_backward(backward, world.team);
                return std::vector{y, dx};
            });
        };
        EXPECT_EQ(run(false), run(true));
    }
}

TEST(Activation, IsItsFormula) {
    for (const Curve& curve : kCurves) {
        const Values x = activation_input(curve);
        Values expected;
        for (std::size_t row = 0; row < kRows; ++row)
            for (std::size_t i = 0; i < kWidth; ++i) {
                const double* const gate = x.data() + row * kWidth * (curve.gated ? 2 : 1);
                expected.push_back(curve.f(gate[i]) * (curve.gated ? gate[kWidth + i] : 1));
            }
        const Computation run = [&](const World& world) {
            return std::vector{activated(world, curve, x)};
        };
        expect_equal_in_fp64(in_fp64(run)[0], expected, 8);
        expect_everywhere(run, 8);
    }
}

TEST(Activation, BackwardIsTheGradient) {
    for (const Curve& curve : kCurves) {
        const Values x = activation_input(curve), dy = exact_numbers(kRows * kWidth, 2);
        const bool by_output = curve.form == ActivationForm::relu;
        const Computation run = [&](const World& world) {
            const Tensor told_by = by_output ? activated(world, curve, x) : world.in(x);
            const Tensor tdy = world.in(dy), dx = world.out(x.size());
            world.table.activation_backward(
                {curve.form, kRows, kWidth, tdy.buffer(), told_by.buffer(), dx.buffer()},
                world.team);
            return std::vector{dx};
        };
        expect_gradient(
            [&](const Values& at) {
                return dot(dy, in_fp64([&](const World& world) {
                               return std::vector{activated(world, curve, at)};
                           })[0]);
            },
            x, in_fp64(run)[0]);
        expect_everywhere(run, 64);
    }
}

TEST(Activation, BackwardInPlace) {
    for (const Curve& curve : kCurves) {
        const Values x = activation_input(curve), dy = exact_numbers(kRows * kWidth, 2);
        for (const DType type : {DType::bf16, DType::fp32}) {
            Team team(2);
            const Tensor told_by(type, x), tdy(type, dy);
            const Tensor dx(type, static_cast<std::int64_t>(x.size()));
            kernels().activation_backward(
                {curve.form, kRows, kWidth, tdy.buffer(), told_by.buffer(), dx.buffer()}, team);
            kernels().activation_backward(
                {curve.form, kRows, kWidth, tdy.buffer(), told_by.buffer(), told_by.buffer()},
                team);
            EXPECT_EQ(told_by.bytes(), dx.bytes());
        }
    }
}

struct RopeCase {
    AttentionShape shape;
    std::int64_t rotary_dim;
};

Tensor turned(const World& world, const RopeCase& c, const Values& frequencies, const Values& qkv,
              bool back) {
    Tensor tensor = world.in(qkv);
    const Rope rope{c.shape, c.rotary_dim, frequencies.data(), tensor.buffer()};
    if (back)
        world.table.rope_backward({rope}, world.team);
    else
        world.table.rope(rope, world.team);
    return tensor;
}

TEST(Rope, TurnsPairsAndBackwardTurnsBack) {
    for (const RopeCase& c : {RopeCase{{2, 19, 3, 1, 8}, 8}, RopeCase{{1, 33, 2, 2, 6}, 4}}) {
        const AttentionShape& shape = c.shape;
        Values frequencies;
        for (std::int64_t i = 0; i < c.rotary_dim / 2; ++i)
            frequencies.push_back(std::pow(
                10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(c.rotary_dim)));
        const Values qkv = exact_numbers(shape.batch * shape.sequence * shape.qkv_width(), 1);
        Values expected = qkv;
        for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row)
            for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head)
                for (std::int64_t i = 0; i < c.rotary_dim / 2; ++i) {
                    const auto low = static_cast<std::size_t>(row * shape.qkv_width() +
                                                              head * shape.head_dim + i);
                    const auto high = low + static_cast<std::size_t>(c.rotary_dim / 2);
                    const double angle = static_cast<double>(row % shape.sequence) *
                                         frequencies[static_cast<std::size_t>(i)];
                    expected[low] = qkv[low] * std::cos(angle) - qkv[high] * std::sin(angle);
                    expected[high] = qkv[high] * std::cos(angle) + qkv[low] * std::sin(angle);
                }
        const Computation forward = [&](const World& world) {
            return std::vector{turned(world, c, frequencies, qkv, false)};
        };
        expect_equal_in_fp64(in_fp64(forward)[0], expected, 4);
        expect_everywhere(forward, 4);
        // The transpose of a rotation is its inverse.
        const Computation back = [&](const World& world) {
            return std::vector{turned(world, c, frequencies, expected, true)};
        };
        expect_equal_in_fp64(in_fp64(back)[0], qkv, 4);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
