// Casts to eight bits: whatever shares a scale, however the copy lies, numbers are those of a plain
// loop over one block; and products are those of their values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/cpu/kernels.hpp"
#include "runtime/kernels/eight_bit.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

std::vector<float> normals(std::int64_t n, std::uint32_t seed) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(normal({seed, 0, 0}, i) * std::exp2(i % 11));
    return values;
}

Buffer of(std::vector<float>& values) {
    return {values.data(), DType::fp32};
}
Buffer of(std::vector<std::uint8_t>& values, DType type = DType::fp8_e4m3) {
    return {values.data(), type};
}

struct Case {
    std::int64_t rows, width, matrices;
    std::int64_t scale_rows, scale_columns;  // of what shares a scale, as x lies
    bool transposed = false, micro = false;
};

// Value (row, column) of x by the copy, and that of a plain cast of its block.
void expect_cast(const Case& c, Team& team) {
    std::vector<float> x = normals(c.rows * c.width, 3);
    const std::int64_t matrix = c.rows / c.matrices, n = c.rows * c.width;
    const std::int64_t count = n / (c.scale_rows * c.scale_columns);
    std::vector<std::uint8_t> data(static_cast<std::size_t>(n), 0xff),
        bytes(static_cast<std::size_t>(count));
    std::vector<float> scales(static_cast<std::size_t>(count));
    Quantize op{c.rows, c.width, c.matrices, of(x), {}, {}};
    EightBitCopy& copy = op.copies[0];
    copy.data = of(data);
    copy.transposed = c.transposed;
    copy.scales.values = c.micro ? of(bytes, DType::u8) : of(scales);
    copy.scales.rows = c.transposed ? c.scale_columns : c.scale_rows;
    copy.scales.columns = c.transposed ? c.scale_rows : c.scale_columns;
    copy.scales.stride = (c.transposed ? matrix : c.width) / copy.scales.columns;
    kernels().quantize(op, team);
    const std::int64_t across = c.width / c.scale_columns;
    std::vector<float> largest(static_cast<std::size_t>(count));
    const auto block_of = [&](std::int64_t row, std::int64_t column) {
        return static_cast<std::size_t>(row / c.scale_rows * across + column / c.scale_columns);
    };
    for (std::int64_t i = 0; i < n; ++i) {
        float& most = largest[block_of(i / c.width, i % c.width)];
        most = std::max(most, std::abs(x[static_cast<std::size_t>(i)]));
    }
    for (std::int64_t row = 0; row < c.rows; ++row)
        for (std::int64_t column = 0; column < c.width; ++column) {
            const float most = largest[block_of(row, column)];
            const float scale = scale_for(most, kLargestE4M3);
            const float value = x[static_cast<std::size_t>(row * c.width + column)];
            const std::int64_t m = row / matrix, r = row % matrix;
            const std::int64_t at =
                c.transposed ? (m * c.width + column) * matrix + r : row * c.width + column;
            const std::int64_t s = c.transposed ? copy.scales.index(m * c.width + column, r)
                                                : copy.scales.index(row, column);
            ASSERT_EQ(data[static_cast<std::size_t>(at)], E4M3::from(value / scale));
            ASSERT_EQ(c.micro ? value_of(bytes[static_cast<std::size_t>(s)])
                              : scales[static_cast<std::size_t>(s)],
                      scale);
        }
}

TEST(Quantize, CastsEachBlockByItsScale) {
    Team team(2);
    for (const bool transposed : {false, true})
        for (const bool micro : {false, true})
            for (const Case& c :
                 {Case{96, 64, 1, 96, 64}, Case{96, 64, 3, 32, 64}, Case{8, 2304, 1, 1, 2304},
                  Case{96, 80, 1, 96, 1}, Case{128, 256, 2, 1, 128}, Case{256, 1152, 2, 128, 128},
                  Case{64, 96, 1, 32, 1}, Case{64, 96, 2, 1, 32}}) {
                Case with = c;
                with.transposed = transposed;
                with.micro = micro;
                expect_cast(with, team);
            }
}

// Of a matrix by its largest magnitude as a kernel before has found it: over several ranks' shares.
TEST(Quantize, TakesTheLargestMagnitudeThatItIsGiven) {
    Team team(1);
    std::vector<float> x = {1, -2, 3, 4}, largest = {448, 8}, scales(2), transposed_scales(2);
    std::vector<std::uint8_t> rows(4), columns(4);
    Quantize op{2, 2, 2, of(x), of(largest), {}};
    op.copies[0] = {of(rows), {of(scales), 1, 2, 1}, false};
    op.copies[1] = {of(columns, DType::fp8_e5m2), {of(transposed_scales), 2, 1, 1}, true};
    kernels().quantize(op, team);
    EXPECT_EQ(scales, (std::vector<float>{1, 0x1p-5F}));  // 256 and 448
    EXPECT_EQ(E4M3::value(rows[1]), -2);
    EXPECT_EQ(E4M3::value(rows[3]) * scales[1], 4);
    EXPECT_EQ(E5M2::value(columns[1]) * transposed_scales[0], -2);
}

TEST(Amax, IsOfEachMatrixAndNaNWhereOneIsNoNumber) {
    Team team(2);
    std::vector<float> x = normals(3 * 40000, 5), largest(3);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    x[40000] = nan;
    x[100000] = -1e6F;
    kernels().amax({3 * 40000, 3, of(x), of(largest)}, team);
    float most = 0;
    for (std::size_t i = 0; i < 40000; ++i)
        most = std::max(most, std::abs(x[i]));
    EXPECT_EQ(largest[0], most);
    EXPECT_TRUE(std::isnan(largest[1]));
    EXPECT_EQ(largest[2], 1e6F);
    // What shares a scale with it is lost, and nothing else is.
    std::vector<std::uint8_t> data(3 * 40000);
    std::vector<float> scales(3);
    Quantize op{3, 40000, 3, of(x), of(largest), {}};
    op.copies[0] = {of(data), {of(scales), 1, 40000, 1}, false};
    kernels().quantize(op, team);
    EXPECT_TRUE(std::isnan(scales[1]));
    EXPECT_NEAR(E4M3::value(data[100000]) * scales[2], -1e6, 1e6 / 16);
}

TEST(Amax, KeepsWhatIsLarger) {
    Team team(1);
    std::vector<float> x = {1, -3, 2, 0}, largest = {2, 5};
    kernels().amax({4, 2, of(x), of(largest), true}, team);
    EXPECT_EQ(largest, (std::vector<float>{3, 5}));
}

// Two matrices, three steps behind the largest of them.
TEST(UpdateScales, TakesWhatWasNotedAndForgetsTheOldest) {
    Team team(1);
    std::vector<float> history(8), noted(2);
    const auto step = [&](float first, float second) {
        noted = {first, second};
        kernels().update_scales({4, 2, of(history), of(noted)}, team);
        EXPECT_EQ(noted, (std::vector<float>{0, 0}));
    };
    step(7, 1);
    EXPECT_EQ(history, (std::vector<float>{7, 1, 7, 1, 0, 0, 0, 0}));
    step(2, 3);
    step(4, 2);
    EXPECT_EQ(history, (std::vector<float>{7, 3, 4, 2, 2, 3, 7, 1}));
    step(1, 1);
    EXPECT_EQ(history, (std::vector<float>{4, 3, 1, 1, 4, 2, 2, 3}));
    // A step that is passed over for its NaN does not spoil those behind it.
    step(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
    EXPECT_EQ(history, (std::vector<float>{4, 2, 0, 0, 1, 1, 4, 2}));
}

TEST(Transpose, TurnsEachMatrix) {
    Team team(2);
    std::vector<float> x = normals(2 * 70 * 130, 9), y(x.size());
    kernels().transpose({2 * 70, 130, 2, of(x), of(y)}, team);
    for (std::size_t m = 0; m < 2; ++m)
        for (std::size_t r = 0; r < 70; ++r)
            for (std::size_t c = 0; c < 130; ++c)
                ASSERT_EQ(y[(m * 130 + c) * 70 + r], x[(m * 70 + r) * 130 + c]);
}

// In every form, with a scale for a tensor, a row, blocks along what is summed or across: the
// product of the values, which are held exactly as fp32.
TEST(EightBitGemm, IsTheProductOfTheValues) {
    Team team(2);
    constexpr std::int64_t kM = 96, kN = 64, kK = 128;
    for (const GemmForm form :
         {GemmForm::forward, GemmForm::input_gradient, GemmForm::weight_gradient}) {
        const bool turned_a = form == GemmForm::weight_gradient,
                   turned_b = form != GemmForm::forward;
        const auto operand = [&](bool turned, std::int64_t across, std::uint32_t seed,
                                 std::int64_t block_rows, std::int64_t block_columns,
                                 std::vector<std::uint8_t>& data, std::vector<float>& scales,
                                 Scales& described) {
            const std::int64_t rows = turned ? kK : across, width = turned ? across : kK;
            block_rows = std::min(block_rows, rows);
            block_columns = std::min(block_columns, width);
            std::vector<float> values(static_cast<std::size_t>(rows * width));
            data.resize(values.size());
            scales.resize(static_cast<std::size_t>(rows / block_rows * (width / block_columns)));
            for (std::size_t i = 0; i < scales.size(); ++i)
                scales[i] = std::exp2(static_cast<float>(i % 5) - 2);
            described = {of(scales), block_rows, block_columns, width / block_columns};
            for (std::int64_t i = 0; i < rows * width; ++i) {
                const auto at = static_cast<std::size_t>(i);
                data[at] = E4M3::from(static_cast<float>(normal({seed, 0, 0}, at)));
                values[at] =
                    E4M3::value(data[at]) *
                    scales[static_cast<std::size_t>(described.index(i / width, i % width))];
            }
            return values;
        };
        for (const auto& [block_rows, block_columns] :
             {std::pair<std::int64_t, std::int64_t>{128, 128},
              {1, 128},
              {128, 1},
              {32, 1},
              {1, 32}}) {
            std::vector<std::uint8_t> a, b;
            std::vector<float> a_scales, b_scales, found(kM * kN, 1), expected(kM * kN, 1);
            Gemm eight{form, kM, kN, kK, {}, {}, {}, of(found), true};
            std::vector<float> wide_a =
                operand(turned_a, kM, 1, block_rows, block_columns, a, a_scales, eight.a_scales);
            std::vector<float> wide_b =
                operand(turned_b, kN, 2, block_rows, block_columns, b, b_scales, eight.b_scales);
            eight.a = of(a);
            eight.b = of(b);
            kernels().gemm(eight, team);
            kernels().gemm({form, kM, kN, kK, of(wide_a), of(wide_b), {}, of(expected), true},
                           team);
            EXPECT_EQ(found, expected);
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
