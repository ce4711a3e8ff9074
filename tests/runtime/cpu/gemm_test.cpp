#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

struct Size {
    std::int64_t m, n, k;
};
// Odd ones, single ones, ones of several tiles (128 × 192 at this size), and ones deeper than a
// panel of converted numbers (512).
constexpr Size kSizes[] = {{1, 1, 1}, {5, 3, 7}, {37, 53, 29}, {259, 389, 31}, {9, 11, 1031}};
constexpr GemmForm kForms[] = {GemmForm::forward, GemmForm::input_gradient,
                               GemmForm::weight_gradient};

Values product(GemmForm form, const Size& size, const Values& a, const Values& b) {
    const auto [m, n, k] = size;
    Values c(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t l = 0; l < k; ++l) {
                const std::int64_t of_a = form == GemmForm::weight_gradient ? l * m + i : i * k + l;
                const std::int64_t of_b = form == GemmForm::forward ? j * k + l : l * n + j;
                c[static_cast<std::size_t>(i * n + j)] +=
                    a[static_cast<std::size_t>(of_a)] * b[static_cast<std::size_t>(of_b)];
            }
    return c;
}

// Products of multiples of 1/64 below 4 are multiples of 2^-12 below 2^4; sums of up to 1031 of
// them are exact in fp64, and the loop gives the exact value.
TEST(Gemm, EachFormIsItsPlainLoop) {
    for (const Size& size : kSizes)
        for (const GemmForm form : kForms) {
            const Values a = exact_numbers(size.m * size.k, 1),
                         b = exact_numbers(size.n * size.k, 2);
            const Values bias = exact_numbers(size.n, 3);
            const bool biased = form == GemmForm::forward;
            const Computation run = [&](const World& world) {
                const Tensor ta = world.in(a), tb = world.in(b), tbias = world.in(bias);
                const Tensor c = world.out(static_cast<std::size_t>(size.m * size.n));
                world.table.gemm({form, size.m, size.n, size.k, ta.buffer(), tb.buffer(),
                                  biased ? tbias.buffer() : Buffer{}, c.buffer(), false},
                                 world.team);
                return std::vector{c};
            };
            Values expected = product(form, size, a, b);
            for (std::size_t i = 0; biased && i < expected.size(); ++i)
                expected[i] += bias[i % static_cast<std::size_t>(size.n)];
            EXPECT_EQ(in_fp64(run)[0], expected);
            // k products and additions, each rounded, of partial sums that hardly exceed the sum.
            expect_everywhere(run, 2.0 * static_cast<double>(size.k));
        }
}

// A gradient in any type of its own is read, added to and rounded once.
TEST(Gemm, AccumulatesWeightGradientsInTheirType) {
    constexpr Size kSize{70, 45, 33};
    const Values a = exact_numbers(kSize.m * kSize.k, 1), b = exact_numbers(kSize.n * kSize.k, 2);
    const Values before = exact_numbers(kSize.m * kSize.n, 3);
    Values expected = product(GemmForm::weight_gradient, kSize, a, b);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] += before[i];
    for (const DType type : {DType::bf16, DType::fp16, DType::fp32, DType::fp64}) {
        const Computation run = [&](const World& world) {
            const Tensor ta = world.in(a), tb = world.in(b), c(type, before);
            world.table.gemm({GemmForm::weight_gradient,
                              kSize.m,
                              kSize.n,
                              kSize.k,
                              ta.buffer(),
                              tb.buffer(),
                              {},
                              c.buffer(),
                              true},
                             world.team);
            return std::vector{c};
        };
        const double round = unit_of(type);
        const Values found = in_fp64(run)[0];
        for (std::size_t i = 0; i < found.size(); ++i)
            EXPECT_NEAR(found[i], expected[i], round * std::abs(expected[i]));
        expect_everywhere(run, 2.0 * kSize.k + 2 * round / 0x1p-24);
    }
}

// Beside the bias and the factor, which is not of it.
TEST(Gemm, AddsAResidualThatIsAnother) {
    for (const Size& size : kSizes)
        for (const double factor : {1.0, 0.375}) {
            const Values a = exact_numbers(size.m * size.k, 1),
                         b = exact_numbers(size.n * size.k, 2);
            const Values bias = exact_numbers(size.n, 3), x = exact_numbers(size.m * size.n, 4);
            const Computation run = [&](const World& world) {
                const Tensor ta = world.in(a), tb = world.in(b), tbias = world.in(bias),
                             tx = world.in(x);
                const Tensor c = world.out(x.size());
                Gemm op{GemmForm::forward, size.m,         size.n,     size.k, ta.buffer(),
                        tb.buffer(),       tbias.buffer(), c.buffer(), false,  factor};
                op.residual = tx.buffer();
                world.table.gemm(op, world.team);
                return std::vector{c};
            };
            Values expected = product(GemmForm::forward, size, a, b);
            for (std::size_t i = 0; i < expected.size(); ++i)
                expected[i] =
                    expected[i] * factor + bias[i % static_cast<std::size_t>(size.n)] + x[i];
            EXPECT_EQ(in_fp64(run)[0], expected);
            expect_everywhere(run, 2.0 * static_cast<double>(size.k) + 4);
        }
}

// As a product and residual_add, but that these round the branch to its type: to the bit where that
// is the type they compute in, else off by half a unit of the branch and of either sum.
TEST(Gemm, SparesARoundingWhereItAddsAResidual) {
    constexpr Size kSize{37, 53, 29};
    const Values a = exact_numbers(kSize.m * kSize.k, 1), b = exact_numbers(kSize.n * kSize.k, 2);
    const Values bias = exact_numbers(kSize.n, 3), x = exact_numbers(kSize.m * kSize.n, 4);
    const Values branch_exactly = product(GemmForm::forward, kSize, a, b);
    Team team(2);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()})
        for (const DType type : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
            const Tensor ta(type, a), tb(type, b), tbias(type, bias), tx(type, x);
            const Tensor branch(type, std::int64_t{kSize.m * kSize.n}),
                apart(type, std::int64_t{kSize.m * kSize.n}),
                together(type, std::int64_t{kSize.m * kSize.n});
            Gemm op{GemmForm::forward, kSize.m,     kSize.n, kSize.k,
                    ta.buffer(),       tb.buffer(), {},      branch.buffer()};
            table->gemm(op, team);
            ResidualAdd sum;
            sum.rows = kSize.m;
            sum.width = kSize.n;
            sum.branch = branch.buffer();
            sum.biases[0] = tbias.buffer();
            sum.x = tx.buffer();
            sum.y = apart.buffer();
            table->residual_add(sum, team);
            op.bias = tbias.buffer();
            op.residual = tx.buffer();
            op.c = together.buffer();
            table->gemm(op, team);
            if (type == DType::fp32 || type == DType::fp64) {
                EXPECT_EQ(together.bytes(), apart.bytes());
                continue;
            }
            const Values y = together.values(), z = apart.values();
            for (std::size_t i = 0; i < y.size(); ++i)
                EXPECT_NEAR(y[i], z[i],
                            unit_of(type) *
                                (std::abs(branch_exactly[i]) + std::abs(y[i]) + std::abs(z[i])));
            EXPECT_NE(y, z);
        }
}

// The factor is of the product, and not of what it is added to: the bias, or what is there already.
// 3/8 of the exact product is exact, too.
TEST(Gemm, AFactorIsOfTheProductAlone) {
    constexpr double kFactor = 0.375;
    for (const Size& size : kSizes)
        for (const GemmForm form : kForms)
            for (const bool accumulate : {false, true}) {
                const Values a = exact_numbers(size.m * size.k, 1),
                             b = exact_numbers(size.n * size.k, 2);
                const Values bias = exact_numbers(size.n, 3);
                const Values before = exact_numbers(size.m * size.n, 4);
                const bool biased = form == GemmForm::forward;
                const Computation run = [&](const World& world) {
                    const Tensor ta = world.in(a), tb = world.in(b), tbias = world.in(bias);
                    const Tensor c = world.in(before);
                    Gemm op{form,        size.m, size.n,     size.k,     ta.buffer(),
                            tb.buffer(), {},     c.buffer(), accumulate, kFactor};
                    if (biased) op.bias = tbias.buffer();
                    world.table.gemm(op, world.team);
                    return std::vector{c};
                };
                Values expected = product(form, size, a, b);
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    expected[i] *= kFactor;
                    if (biased) expected[i] += bias[i % static_cast<std::size_t>(size.n)];
                    if (accumulate) expected[i] += before[i];
                }
                EXPECT_EQ(in_fp64(run)[0], expected);
                expect_everywhere(run, 2.0 * static_cast<double>(size.k) + 4);
            }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
