#include <algorithm>
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

// A matrix as it lies, and what shares a scale in it.
struct Side {
    std::int64_t rows, columns;
    Block block;
    DType type = DType::fp8_e4m3;
};

Scales scales_of(const Side& side, Buffer values) {
    const std::int64_t across = (side.columns + side.block.columns - 1) / side.block.columns;
    return {values, side.block.rows, side.block.columns, across};
}
std::int64_t count_of(const Side& side) {
    return (side.rows + side.block.rows - 1) / side.block.rows *
           ((side.columns + side.block.columns - 1) / side.block.columns);
}

// Both sides cast, and multiplied; added to a gradient in fp32, or with a bias.
void check_product(World& world, const std::string& name, GemmForm form, const Side& a,
                   const Side& b, DType scale_type, bool gradient) {
    const bool sums_rows = form == GemmForm::weight_gradient;
    const std::int64_t m = sums_rows ? a.columns : a.rows, k = sums_rows ? a.rows : a.columns;
    const std::int64_t n = form == GemmForm::forward ? b.rows : b.columns;
    world.begin("gemm", "eight bits, " + name + ", " + std::to_string(m) + "x" + std::to_string(n) +
                            "x" + std::to_string(k) + (gradient ? ", added" : ", bias"));
    Tensor& x = world.in(normals(m * k, 1));
    Tensor& y = world.in(normals(n * k, 2));
    Tensor& bias = world.in(normals(n, 3));
    Tensor& x_numbers = world.out(DType::u8, m * k);
    Tensor& y_numbers = world.out(DType::u8, n * k);
    Tensor& x_scales = world.out(scale_type, count_of(a));
    Tensor& y_scales = world.out(scale_type, count_of(b));
    Tensor& c = gradient ? world.in(DType::fp32, normals(m * n, 4)) : world.out(m * n);
    world.run([&](Kernels& kernels, const Place& at) {
        const auto cast = [&](Tensor& from, Tensor& numbers, Tensor& scales, const Side& side) {
            Quantize op{side.rows, side.columns, 1, at(from), {}, {}};
            op.copies[0] = {{at(numbers).data, side.type}, scales_of(side, at(scales))};
            kernels.quantize(op);
            return op.copies[0];
        };
        const EightBitCopy of_a = cast(x, x_numbers, x_scales, a);
        const EightBitCopy of_b = cast(y, y_numbers, y_scales, b);
        Gemm gemm{form, m, n, k, of_a.data, of_b.data, {}, at(c)};
        if (!gradient && form == GemmForm::forward) gemm.bias = at(bias);
        gemm.accumulate = gradient;
        gemm.a_scales = of_a.scales;
        gemm.b_scales = of_b.scales;
        kernels.gemm(gemm);
    });
    world.expect_same("scales of a", x_scales);
    world.expect_same("scales of b", y_scales);
    world.expect_close("c", c, roundings_of_sum(k), gradient ? 0 : unit_of(c.dtype) * 4);
}

// A step's three products, of rows by rows and as matrices lie.
void check_block_products(World& world, std::int64_t m, std::int64_t n, std::int64_t k) {
    const Block run{"", 1, 128}, square{"", 128, 128}, down{"", 128, 1};
    const DType fp32 = DType::fp32;
    check_product(world, "blocks, forward", GemmForm::forward, {m, k, run}, {n, k, square}, fp32,
                  false);
    check_product(world, "blocks, rows by rows", GemmForm::forward, {m, k, run}, {n, k, run}, fp32,
                  true);
    check_product(world, "blocks, input gradient", GemmForm::input_gradient, {m, k, run},
                  {k, n, square}, fp32, false);
    check_product(world, "blocks, weight gradient", GemmForm::weight_gradient, {k, m, down},
                  {k, n, down}, fp32, true);
    const Block micro{"", 1, 32}, micro_down{"", 32, 1};
    check_product(world, "MXFP8, forward", GemmForm::forward, {m, k, micro}, {n, k, micro},
                  DType::u8, false);
    check_product(world, "MXFP8, input gradient", GemmForm::input_gradient, {m, k, micro},
                  {k, n, micro_down}, DType::u8, false);
    check_product(world, "MXFP8, weight gradient", GemmForm::weight_gradient, {k, m, micro_down},
                  {k, n, micro_down}, DType::u8, true);
}

Buffer from_element(const Buffer& whole, std::int64_t element) {
    return {static_cast<std::byte*>(whole.data) + element * plan::size_bytes(whole.dtype),
            whole.dtype};
}

// Rows of an expert among those of others: so many from `first` on, in copies by rows and of
// columns that are as long as all of them are many. `shared`: of how many rows columns share a
// scale; 0: all of it.
struct Run {
    std::int64_t first, rows, room, shared;
};

EightBitCopy copy_of_run(const Run& run, Buffer data, Buffer scales, std::int64_t width,
                         bool transposed) {
    const std::int64_t first = transposed ? run.first : run.first * width;
    EightBitCopy copy{{static_cast<std::byte*>(data.data) + first, data.dtype}, {}, transposed};
    copy.scales.values = scales;
    if (transposed) copy.stride = run.room;
    if (run.shared == 0) {
        copy.scales.rows = copy.scales.columns = std::max(run.rows, width);
    } else {
        copy.scales.rows = 1;
        copy.scales.columns = run.shared;
        // As many as all experts' rows may need.
        copy.scales.stride = transposed ? run.room / run.shared + 3 : width / run.shared;
    }
    return copy;
}

// A cast of the run's rows of x.
EightBitCopy cast_of_run(Kernels& kernels, const Run& run, const Buffer& x, Buffer data,
                         Buffer scales, std::int64_t width, bool transposed) {
    Quantize op{run.rows, width, 1, from_element(x, run.first * width), {}, {}};
    op.copies[0] = copy_of_run(run, data, scales, width, transposed);
    kernels.quantize(op);
    return op.copies[0];
}

// An expert's rows by its weight, which is the second of two.
void check_rows_of_run(World& world, const Run& run, std::int64_t width, std::int64_t out) {
    const bool whole = run.shared == 0;
    world.begin("gemm", "eight bits of an expert's " + std::to_string(run.rows) + " rows, " +
                            (whole ? "a scale each" : "blocks"));
    const Block block{"", whole ? out : 128, whole ? width : 128};
    Tensor& x = world.in(normals(run.room * width, 1));
    Tensor& w = world.in(normals(2 * out * width, 2));
    Tensor& rows = world.out(DType::u8, run.room * width);
    Tensor& rows_scales = world.out(DType::fp32, run.room * width / 128);
    Tensor& weights = world.out(DType::u8, 2 * out * width);
    Tensor& w_scales = world.out(DType::fp32, 2 * out / block.rows * (width / block.columns));
    Tensor& y = world.out(run.room * out);
    world.run([&](Kernels& kernels, const Place& at) {
        const Buffer numbers{at(rows).data, DType::fp8_e4m3};
        const EightBitCopy cast =
            cast_of_run(kernels, run, at(x), numbers, at(rows_scales), width, false);
        Quantize of_w{2 * out, width, 2, at(w), {}, {}};
        of_w.copies[0] =
            copy_of({at(weights).data, DType::fp8_e4m3}, at(w_scales), block, width, out, false);
        kernels.quantize(of_w);
        Gemm gemm{GemmForm::forward, run.rows, out, width, cast.data, {}, {}, {}};
        gemm.b = from_element(of_w.copies[0].data, out * width);
        gemm.c = from_element(at(y), run.first * out);
        gemm.a_scales = cast.scales;
        gemm.b_scales = of_w.copies[0].scales;
        gemm.b_scales.first_row = out;
        gemm.each_row_alone = true;
        kernels.gemm(gemm);
    });
    world.expect_same("rows", rows);
    world.expect_same("scales of rows", rows_scales);
    world.expect_close("y", y, roundings_of_sum(width), unit_of(y.dtype) * 4);
}

// The gradient of its weight, added to that of others.
void check_gradient_of_run(World& world, const Run& run, std::int64_t width, std::int64_t out) {
    const bool whole = run.shared == 0;
    world.begin("gemm", "eight bits, the gradient of an expert's " + std::to_string(run.rows) +
                            " rows, " + (whole ? "a scale each" : "blocks"));
    const DType gradients = whole ? DType::fp8_e5m2 : DType::fp8_e4m3;
    const std::int64_t scales = run.room / 128 + 3;
    Tensor& x = world.in(normals(run.room * width, 1));
    Tensor& dy = world.in(normals(run.room * out, 2));
    Tensor& columns = world.out(DType::u8, run.room * width);
    Tensor& columns_scales = world.out(DType::fp32, width * scales);
    Tensor& dy_columns = world.out(DType::u8, run.room * out);
    Tensor& dy_scales = world.out(DType::fp32, out * scales);
    Tensor& dw = world.in(DType::fp32, normals(out * width, 3));
    world.run([&](Kernels& kernels, const Place& at) {
        const EightBitCopy b = cast_of_run(kernels, run, at(x), {at(columns).data, DType::fp8_e4m3},
                                           at(columns_scales), width, true);
        const EightBitCopy a = cast_of_run(kernels, run, at(dy), {at(dy_columns).data, gradients},
                                           at(dy_scales), out, true);
        Gemm gemm{GemmForm::forward, out, width, run.rows, a.data, b.data, {}, at(dw)};
        gemm.a_scales = a.scales;
        gemm.b_scales = b.scales;
        gemm.a_stride = a.stride;
        gemm.b_stride = b.stride;
        gemm.accumulate = true;
        kernels.gemm(gemm);
    });
    world.expect_same("columns", columns);
    world.expect_same("scales of columns", columns_scales);
    world.expect_close("dw", dw, roundings_of_sum(run.rows + 1));
}

}  // namespace

void check_eight_bit_products(World& world) {
    check_block_products(world, 16, 144, 256);  // two rows of blocks, of two each
    check_block_products(world, 132, 72, 160);  // and parts of blocks, and of tiles
    check_block_products(world, 7, 40, 416);
    if (world.large()) check_block_products(world, 512, 1024, 768);
    for (const std::int64_t shared : {0, 128})
        for (const std::int64_t rows : {0, 1, 64, 131}) {
            check_rows_of_run(world, {rows % 5, rows, 140, shared}, 256, 128);
            check_gradient_of_run(world, {rows % 5, rows, 140, shared}, 128, 128);
        }
}

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
    check_eight_bit_products(world);
}

}  // namespace orrery::runtime::gpu_check
