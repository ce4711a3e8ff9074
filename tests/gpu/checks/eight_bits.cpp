#include <string>

#include "runtime/kernels/eight_bit.hpp"
#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

// What shares a scale, as x lies.
struct Block {
    const char* name;
    std::int64_t rows, columns;
};

EightBitCopy copy_of(Buffer data, Buffer scales, const Block& block, std::int64_t width,
                     std::int64_t matrix_rows, bool transposed) {
    EightBitCopy copy{data, {}, transposed};
    copy.scales.values = scales;
    copy.scales.rows = transposed ? block.columns : block.rows;
    copy.scales.columns = transposed ? block.rows : block.columns;
    copy.scales.stride = (transposed ? matrix_rows : width) / copy.scales.columns;
    return copy;
}

// Both ways at once, the columns transposed.
void check_casts(World& world, std::int64_t rows, std::int64_t width, std::int64_t matrices) {
    const std::int64_t each = rows / matrices, n = rows * width;
    for (const DType numbers : {DType::fp8_e4m3, DType::fp8_e5m2})
        for (const DType scale_type : {DType::fp32, DType::u8})
            for (const Block& block : {Block{"a matrix", each, width}, Block{"a row", 1, width},
                                       Block{"a column", each, 1}, Block{"32 of a row", 1, 32},
                                       Block{"32 of a column", 32, 1}, Block{"32 x 32", 32, 32}}) {
                world.begin("quantize", std::to_string(matrices) + "x" + std::to_string(each) +
                                            "x" + std::to_string(width) + ", a scale for " +
                                            block.name);
                const std::int64_t count = n / (block.rows * block.columns);
                Tensor& x = world.in(normals(n, 1));
                Tensor& by_rows = world.out(DType::u8, n);
                Tensor& row_scales = world.out(scale_type, count);
                Tensor& by_columns = world.out(DType::u8, n);
                Tensor& column_scales = world.out(scale_type, count);
                world.run([&](Kernels& kernels, const Place& at) {
                    Quantize op{rows, width, matrices, at(x), {}, {}};
                    op.copies[0] = copy_of({at(by_rows).data, numbers}, at(row_scales), block,
                                           width, each, false);
                    op.copies[1] = copy_of({at(by_columns).data, numbers}, at(column_scales), block,
                                           width, each, true);
                    kernels.quantize(op);
                });
                world.expect_same("rows", by_rows);
                world.expect_same("scales of rows", row_scales);
                world.expect_same("columns", by_columns);
                world.expect_same("scales of columns", column_scales);
            }
}

void check_given(World& world) {
    world.begin("quantize", "by largest magnitudes that are given");
    constexpr std::int64_t kRows = 6, kWidth = 70, kMatrices = 2;
    Tensor& x = world.in(normals(kRows * kWidth, 1));
    Tensor& largest = world.in(DType::fp32, {3, std::nan("")});
    Tensor& data = world.out(DType::u8, kRows * kWidth);
    Tensor& scales = world.out(DType::fp32, kMatrices);
    world.run([&](Kernels& kernels, const Place& at) {
        Quantize op{kRows, kWidth, kMatrices, at(x), at(largest), {}};
        op.copies[0] = copy_of({at(data).data, DType::fp8_e4m3}, at(scales),
                               {"", kRows / kMatrices, kWidth}, kWidth, kRows / kMatrices, false);
        kernels.quantize(op);
    });
    world.expect_same("rows", data);
    world.expect_same("scales", scales);
}

void check_amax(World& world) {
    for (const std::int64_t matrices : {1, 3}) {
        world.begin("amax", std::to_string(matrices) + " matrices");
        Values values = normals(3 * 1000, 1);
        values[1700] = std::nan("");
        Tensor& x = world.in(values);
        Tensor& largest = world.out(DType::fp32, matrices);
        world.run([&](Kernels& kernels, const Place& at) {
            kernels.amax({3 * 1000, matrices, at(x), at(largest)});
        });
        world.expect_same("largest", largest);
    }
}

void check_histories(World& world) {
    for (const std::int64_t matrices : {1, 3}) {
        constexpr std::int64_t kSteps = 1024;
        world.begin("update_scales", std::to_string(matrices) + " matrices");
        const auto magnitudes = [](std::int64_t n, std::uint32_t seed) {
            Values values = normals(n, seed);
            for (double& value : values)
                value = std::abs(value);
            return values;
        };
        Tensor& history = world.in(DType::fp32, magnitudes(kSteps * matrices, 1));
        // Of the first matrix more than this kernel finds, of another less, of the last no number.
        Values last(static_cast<std::size_t>(matrices), 1e-3);
        if (matrices > 1) last.back() = std::nan("");
        last.front() = 100;
        Tensor& noted = world.in(DType::fp32, last);
        Tensor& x = world.in(normals(6 * matrices, 3));
        world.run([&](Kernels& kernels, const Place& at) {
            kernels.amax({6 * matrices, matrices, at(x), at(noted), true});
            kernels.update_scales({kSteps, matrices, at(history), at(noted)});
        });
        world.expect_same("history", history);
        world.expect_same("noted", noted);
    }
}

void check_transpose(World& world) {
    for (const bool wide : {false, true}) {
        world.begin("transpose", wide ? "of scales" : "of numbers");
        const DType type = wide ? DType::fp32 : DType::u8;
        Values values(2 * 70 * 90);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<double>(i % 251);
        Tensor& x = world.in(type, values);
        Tensor& y = world.out(type, 2 * 70 * 90);
        world.run([&](Kernels& kernels, const Place& at) {
            kernels.transpose({2 * 70, 90, 2, at(x), at(y)});
        });
        world.expect_same("y", y);
    }
}

// Of a stash: a scale of eight bits for each 32 in a row, the last ones fewer.
void check_packing(World& world) {
    constexpr std::int64_t kElements = 1000;
    world.begin("cast", "to eight bits and back");
    Tensor& x = world.in(normals(kElements, 1));
    Tensor& packed = world.out(DType::u8, kElements);
    Tensor& scales = world.out(DType::u8, (kElements + kScaledBlock - 1) / kScaledBlock);
    Tensor& y = world.out(kElements);
    world.run([&](Kernels& kernels, const Place& at) {
        const Buffer numbers{at(packed).data, DType::fp8_e4m3};
        kernels.cast({kElements, at(x), numbers, at(scales)});
        kernels.cast({kElements, numbers, at(y), at(scales)});
    });
    world.expect_same("packed", packed);
    world.expect_same("scales", scales);
    world.expect_same("y", y);
}

// What Hopper multiplies: rows by rows, a scale for each operand or for each row; a gradient's
// range for one of them; added to fp32, or with a bias.
void check_scaled_products(World& world, std::int64_t m, std::int64_t n, std::int64_t k,
                           bool by_rows, bool gradient) {
    world.begin("gemm", "eight bits, a scale for " + std::string(by_rows ? "a row" : "a tensor") +
                            (gradient ? ", added to a gradient" : ", bias"));
    Tensor& a = world.in(normals(m * k, 1));
    Tensor& b = world.in(normals(n * k, 2));
    Tensor& bias = world.in(normals(n, 3));
    Tensor& a_numbers = world.out(DType::u8, m * k);
    Tensor& b_numbers = world.out(DType::u8, n * k);
    Tensor& a_scales = world.out(DType::fp32, by_rows ? m : 1);
    Tensor& b_scales = world.out(DType::fp32, by_rows ? n : 1);
    Tensor& c = gradient ? world.in(DType::fp32, normals(m * n, 4)) : world.out(m * n);
    world.run([&](Kernels& kernels, const Place& at) {
        const auto cast = [&](Tensor& x, Tensor& numbers, Tensor& scales, std::int64_t rows,
                              DType type) {
            Quantize op{rows, k, 1, at(x), {}, {}};
            op.copies[0] = copy_of({at(numbers).data, type}, at(scales),
                                   {"", by_rows ? 1 : rows, k}, k, rows, false);
            kernels.quantize(op);
            return op.copies[0];
        };
        const DType type = gradient && !by_rows ? DType::fp8_e5m2 : DType::fp8_e4m3;
        const EightBitCopy of_a = cast(a, a_numbers, a_scales, m, type);
        const EightBitCopy of_b = cast(b, b_numbers, b_scales, n, DType::fp8_e4m3);
        Gemm gemm{GemmForm::forward, m, n, k, of_a.data, of_b.data, {}, at(c)};
        if (!gradient) gemm.bias = at(bias);
        gemm.accumulate = gradient;
        gemm.a_scales = of_a.scales;
        gemm.b_scales = of_b.scales;
        kernels.gemm(gemm);
    });
    world.expect_close("c", c, roundings_of_sum(k), gradient ? 0 : unit_of(c.dtype) * 4);
}

}  // namespace

void check_eight_bits(World& world) {
    check_amax(world);
    check_given(world);
    check_histories(world);
    check_transpose(world);
    check_packing(world);
    if (world.large() || world.dtype() != DType::fp16) {
        check_casts(world, 64, 64, 1);
        check_casts(world, 96, 96, 3);
    }
    if (world.large()) check_casts(world, 2048, 1536, 1);
    if (world.dtype() != DType::bf16) return;
    for (const bool by_rows : {false, true})
        for (const bool gradient : {false, true}) {
            check_scaled_products(world, 48, 32, 64, by_rows, gradient);
            if (world.large()) check_scaled_products(world, 512, 1024, 768, by_rows, gradient);
        }
}

}  // namespace orrery::runtime::gpu_check
