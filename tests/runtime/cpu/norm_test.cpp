#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 71, kWidth = 37;
constexpr double kEpsilon = 1e-3;

struct Case {
    bool centred;
    double weight_offset;
};
constexpr Case kCases[] = {{true, 0}, {false, 0}, {false, 1}};

struct Input {
    Values x = exact_numbers(kRows * kWidth, 1);
    Values weight = exact_numbers(kWidth, 2), bias = exact_numbers(kWidth, 3);
};

// Outputs: y, stats.
std::vector<Tensor> normed(const World& world, const Case& c, const Input& input) {
    const Tensor x = world.in(input.x), weight = world.in(input.weight),
                 bias = world.in(input.bias);
    Tensor y = world.out(input.x.size());
    Tensor stats = world.work_out(kRows * (c.centred ? 2 : 1));
    world.table.norm(
        {kRows, kWidth, c.centred, kEpsilon, c.weight_offset, x.buffer(), weight.buffer(),
         c.centred ? bias.buffer() : Buffer{}, y.buffer(), stats.buffer()},
        world.team);
    return {y, stats};
}

TEST(Norm, IsItsFormula) {
    for (const Case& c : kCases) {
        const Input input;
        Values y(input.x.size()), stats;
        for (std::size_t row = 0; row < kRows; ++row) {
            const double* x = input.x.data() + row * kWidth;
            double mean = 0, squares = 0;
            for (std::size_t i = 0; i < kWidth && c.centred; ++i)
                mean += x[i] / kWidth;
            for (std::size_t i = 0; i < kWidth; ++i)
                squares += (x[i] - mean) * (x[i] - mean) / kWidth;
            const double inverse = 1 / std::sqrt(squares + kEpsilon);
            for (std::size_t i = 0; i < kWidth; ++i)
                y[row * kWidth + i] =
                    (x[i] - mean) * inverse * (input.weight[i] + c.weight_offset) +
                    (c.centred ? input.bias[i] : 0);
            if (c.centred) stats.push_back(mean);
            stats.push_back(inverse);
        }
        const Computation run = [&](const World& world) { return normed(world, c, input); };
        expect_equal_in_fp64(in_fp64(run)[0], y, 100);
        expect_equal_in_fp64(in_fp64(run)[1], stats, 100);
        expect_everywhere(run, 100);  // sums of 37 elements, twice
    }
}

// The sum is rounded to its type before it is normed, so that both are to the last bit what two
// kernels make. Rows are longer than the pieces that are summed at once.
TEST(Norm, OfASumThatIsMadeFirstIsTheSumsNorm) {
    constexpr std::int64_t kFew = 9, kLong = 1031;
    const Values branch = exact_numbers(kFew * kLong, 1), past = exact_numbers(kFew * kLong, 2),
                 added = exact_numbers(kLong, 3), scale = exact_numbers(kLong, 4),
                 shift = exact_numbers(kLong, 5);
    for (const Case& c : kCases)
        for (const double p : {0.0, 0.3}) {
            const Computation run = [&](const World& world) {
                const Tensor tbranch = world.in(branch), x = world.in(past), bias = world.in(added),
                             weight = world.in(scale), norm_bias = world.in(shift);
                // Those of one kernel; then of two.
                std::vector<Tensor> made;
                for (const bool at_once : {true, false}) {
                    const Tensor sum = world.out(branch.size()), y = world.out(branch.size());
                    const Tensor stats = world.work_out(kFew * (c.centred ? 2 : 1));
                    const Tensor mask(plan::DType::u8, Values(branch.size(), 7));
                    ResidualAdd add;
                    add.rows = kFew;
                    add.width = kLong;
                    add.branch = tbranch.buffer();
                    add.x = x.buffer();
                    add.biases[0] = bias.buffer();
                    add.key = {{3, 1, 2}, p};
                    add.y = sum.buffer();
                    add.mask = p > 0 ? mask.buffer() : Buffer{};
                    const Norm norm{kFew,
                                    kLong,
                                    c.centred,
                                    kEpsilon,
                                    c.weight_offset,
                                    sum.buffer(),
                                    weight.buffer(),
                                    c.centred ? norm_bias.buffer() : Buffer{},
                                    y.buffer(),
                                    stats.buffer()};
                    if (at_once) {
                        world.table.residual_norm({add, norm}, world.team);
                    } else {
                        world.table.residual_add(add, world.team);
                        world.table.norm(norm, world.team);
                    }
                    made.insert(made.end(), {sum, y, stats, mask});
                }
                for (std::size_t i = 0; i < 4; ++i)
                    EXPECT_EQ(made[i].bytes(), made[i + 4].bytes()) << i << ' ' << p;
                return std::vector{made[0], made[3]};
            };
            expect_everywhere(run, 8);
        }
}

// Outputs: dx, dweight, dbias. Gradients of parameters start from `before`.
std::vector<Tensor> differentiated(const World& world, const Case& c, const Input& input,
                                   const Values& dy, const Values* residual, const Values* before) {
    const std::vector<Tensor> forward = normed(world, c, input);
    const Tensor x = world.in(input.x), weight = world.in(input.weight), tdy = world.in(dy);
    const Tensor past = world.in(residual != nullptr ? *residual : Values{});
    const Values start = before != nullptr ? *before : Values(kWidth, std::nan(""));
    Tensor dx = world.out(dy.size()), dweight = world.work_in(start), dbias = world.work_in(start);
    world.table.norm_backward(
        {kRows, kWidth, c.centred, c.weight_offset, tdy.buffer(), x.buffer(), weight.buffer(),
         forward[1].buffer(), residual != nullptr ? past.buffer() : Buffer{}, dx.buffer(),
         dweight.buffer(), c.centred ? dbias.buffer() : Buffer{}, before != nullptr},
        world.team);
    return c.centred ? std::vector{dx, dweight, dbias} : std::vector{dx, dweight};
}

TEST(Norm, BackwardIsTheGradient) {
    const Values dy = exact_numbers(kRows * kWidth, 4);
    for (const Case& c : kCases) {
        const Computation run = [&](const World& world) {
            return differentiated(world, c, {}, dy, nullptr, nullptr);
        };
        const std::vector<Values> found = in_fp64(run);
        const auto loss_of = [&](auto part) {
            return [&, part](const Values& values) {
                Input input;
                input.*part = values;
                return dot(dy,
                           in_fp64([&](const World& world) { return normed(world, c, input); })[0]);
            };
        };
        expect_gradient(loss_of(&Input::x), Input().x, found[0]);
        expect_gradient(loss_of(&Input::weight), Input().weight, found[1]);
        if (c.centred) expect_gradient(loss_of(&Input::bias), Input().bias, found[2]);
        expect_everywhere(run, 200);
    }
}

TEST(Norm, BackwardAddsTheResidualAndAccumulates) {
    const Values dy = exact_numbers(kRows * kWidth, 4), past = exact_numbers(kRows * kWidth, 5);
    const Values before = exact_numbers(kWidth, 6);
    for (const Case& c : kCases) {
        const Computation plain = [&](const World& world) {
            return differentiated(world, c, {}, dy, nullptr, nullptr);
        };
        const Computation added = [&](const World& world) {
            return differentiated(world, c, {}, dy, &past, &before);
        };
        std::vector<Values> expected = in_fp64(plain);
        for (std::size_t i = 0; i < past.size(); ++i)
            expected[0][i] += past[i];
        for (std::size_t output = 1; output < expected.size(); ++output)
            for (std::size_t i = 0; i < kWidth; ++i)
                expected[output][i] += before[i];
        const std::vector<Values> found = in_fp64(added);
        for (std::size_t output = 0; output < expected.size(); ++output)
            expect_equal_in_fp64(found[output], expected[output], 4);
        expect_everywhere(added, 200);
    }
}

TEST(BiasGradient, SumsColumnsAndAccumulates) {
    constexpr std::int64_t kLong = 1031;  // more than a piece
    const Values dy = exact_numbers(kRows * kLong, 1), before = exact_numbers(kLong, 2);
    for (const bool accumulate : {false, true}) {
        const Computation run = [&](const World& world) {
            const Tensor tdy = world.in(dy);
            const Tensor dbias = accumulate ? world.in(before) : world.out(before.size());
            world.table.bias_gradient({kRows, kLong, tdy.buffer(), dbias.buffer(), accumulate},
                                      world.team);
            return std::vector{dbias};
        };
        Values expected = accumulate ? before : Values(before.size());
        for (std::size_t i = 0; i < dy.size(); ++i)
            expected[i % kLong] += dy[i];
        EXPECT_EQ(in_fp64(run)[0], expected);  // multiples of 1/64: exact in fp32 and fp64
        expect_everywhere(run, 0);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
