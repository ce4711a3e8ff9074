#include <algorithm>
#include <array>
#include <cmath>

#include "calib/measure/device_timings.hpp"
#include "calib/measure/size_draw.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::measure {
namespace {

using plan::DType;
using runtime::GemmForm;
using runtime::Kernels;

// Of an element type, and of a head size: enough that some are held out, however little time is
// left.
constexpr std::size_t kFewestRows = 60, kFewestAttentionRows = 16;

using Shape = std::array<std::int64_t, 3>;  // m, n, k

std::vector<Shape> gemm_shapes(const DeviceGrid& grid, double most_flops) {
    constexpr std::int64_t kMultiple = 64;
    SizeDraw draw;
    const auto size = [&] { return draw(grid.gemm_low, grid.gemm_high, kMultiple); };
    std::vector<Shape> shapes;
    while (shapes.size() < static_cast<std::size_t>(grid.gemm_shapes)) {
        const Shape shape{size(), size(), size()};
        if (2.0 * static_cast<double>(shape[0] * shape[1]) * static_cast<double>(shape[2]) <=
            most_flops)
            shapes.push_back(shape);
    }
    return shapes;
}

DeviceTimer::Call product(const Shape& shape, GemmForm form, const DeviceOperands& operands) {
    runtime::Gemm gemm;
    gemm.form = form;
    gemm.m = shape[0];
    gemm.n = shape[1];
    gemm.k = shape[2];
    gemm.a = operands[0];
    gemm.b = operands[1];
    gemm.c = operands[2];
    return [gemm](Kernels& kernels) { kernels.gemm(gemm); };
}

enum class ScaledBy : std::uint8_t { tensor, row };

constexpr std::int64_t kScales = 3, kGradients = 4;  // parts of the operands

DeviceTimer::Call eight_bit_product(const Shape& shape, plan::GemmProduct of, ScaledBy scaled,
                                    const DeviceOperands& operands) {
    const auto scales_of = [&](std::int64_t rows) {
        runtime::Scales scales;
        scales.values = operands.as(DType::fp32, kScales);
        scales.rows = scaled == ScaledBy::row ? 1 : rows;
        scales.columns = shape[2];
        return scales;
    };
    runtime::Gemm gemm;
    gemm.m = shape[0];
    gemm.n = shape[1];
    gemm.k = shape[2];
    gemm.a =
        of == plan::GemmProduct::forward ? operands[0] : operands.as(DType::fp8_e5m2, kGradients);
    gemm.b = operands[1];
    gemm.c = operands.as(DType::bf16, 2);
    gemm.a_scales = scales_of(gemm.m);
    gemm.b_scales = scales_of(gemm.n);
    return [gemm](Kernels& kernels) { kernels.gemm(gemm); };
}

std::vector<runtime::AttentionShape> attention_shapes(const DeviceGrid& grid,
                                                      std::int64_t head_dim) {
    constexpr std::int64_t kMultiple = 64;
    SizeDraw draw;
    std::vector<runtime::AttentionShape> shapes;
    while (shapes.size() < static_cast<std::size_t>(grid.attention_shapes)) {
        runtime::AttentionShape shape;
        shape.sequence = draw(grid.least_sequence, grid.most_sequence, kMultiple);
        shape.kv_heads = draw(1, 16, 1);
        shape.heads = shape.kv_heads * draw(1, 8, 1);
        shape.batch = draw(1, 8, 1);
        shape.head_dim = head_dim;
        const double flops = 2.0 * static_cast<double>(shape.maps() * head_dim) *
                             static_cast<double>(shape.sequence * shape.sequence);
        const std::int64_t bytes =
            shape.batch * shape.sequence * shape.qkv_width() * plan::size_bytes(DType::bf16);
        if (flops <= grid.attention_most_flops && bytes <= operand_bytes(grid))
            shapes.push_back(shape);
    }
    return shapes;
}

}  // namespace

std::int64_t operand_bytes(const DeviceGrid& grid) {
    const std::int64_t product = grid.gemm_high * grid.gemm_high;
    constexpr std::int64_t kTensors = 3;  // of `add`, in as many parts
    return std::max({product * plan::size_bytes(DType::fp32), grid.copy_high,
                     static_cast<std::int64_t>(grid.memory_high) / kTensors});
}

DeviceTimer::Call large_product(const DeviceOperands& operands, const DeviceGrid& grid) {
    const std::int64_t size = std::min(grid.sustained_size, grid.gemm_high);
    return product({size, size, size}, GemmForm::forward, operands);
}

ProductTimings time_products(DeviceTimer& timer, DeviceOperands& operands, const DeviceGrid& grid,
                             DType dtype) {
    const bool wide = dtype == DType::fp32;
    ProductTimings timings;
    timings.dtype = dtype;
    operands.fill(dtype);
    const std::int64_t size =
        std::min(wide ? grid.sustained_size / 2 : grid.sustained_size, grid.gemm_high);
    const DeviceTimer::Call large = product({size, size, size}, GemmForm::forward, operands);
    timer.keep_busy(large);
    for (const Shape& shape :
         gemm_shapes(grid, wide ? grid.gemm_most_flops_fp32 : grid.gemm_most_flops)) {
        if (timings.rows.size() >= kFewestRows && !timer.in_time()) break;
        for (const auto& [of, form] : runtime::kGemmForms)
            timings.rows.push_back(
                {shape[0], shape[1], shape[2], timer.warm_us(product(shape, form, operands)), of});
    }
    timings.sustained = timer.sustained(large);
    return timings;
}

ProductTimings time_eight_bit_products(DeviceTimer& timer, DeviceOperands& operands,
                                       const DeviceGrid& grid, bool scaled_rows) {
    constexpr std::size_t kEvery = 8;  // shape with scales of rows as well
    using plan::GemmProduct;
    ProductTimings timings;
    timings.dtype = DType::fp8_e4m3;
    operands.fill(DType::fp8_e4m3);
    operands.fill(DType::fp8_e5m2, kGradients);
    timer.kernels().fill({grid.gemm_high, 1.0, operands.as(DType::fp32, kScales)});
    const std::int64_t size = std::min(grid.sustained_size, grid.gemm_high);
    const DeviceTimer::Call large =
        eight_bit_product({size, size, size}, GemmProduct::forward, ScaledBy::tensor, operands);
    timer.keep_busy(large);
    const std::vector<Shape> shapes = gemm_shapes(grid, grid.gemm_most_flops);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (timings.rows.size() >= kFewestRows && !timer.in_time()) break;
        for (const auto& [of, form] : runtime::kGemmForms) {
            const auto us = [&, of = of](ScaledBy scaled) {
                return timer.warm_us(eight_bit_product(shapes[i], of, scaled, operands));
            };
            const auto& [m, n, k] = shapes[i];
            timings.rows.push_back({m, n, k, us(ScaledBy::tensor), of});
            if (scaled_rows && i % kEvery == 0)
                timings.of_scaled_rows.push_back({timings.rows.size() - 1, us(ScaledBy::row)});
        }
    }
    timings.sustained = timer.sustained(large);
    return timings;
}

AttentionTimings time_attention(DeviceTimer& timer, DeviceOperands& operands,
                                const DeviceGrid& grid) {
    AttentionTimings timings;
    operands.fill(DType::bf16);
    for (const std::int64_t head_dim : grid.head_dims) {
        bool busy = false;
        const std::size_t before = timings.forward.size();
        for (const runtime::AttentionShape& shape : attention_shapes(grid, head_dim)) {
            if (timings.forward.size() >= before + kFewestAttentionRows && !timer.in_time()) break;
            runtime::Attention forward;
            forward.shape = shape;
            forward.scale = 1 / std::sqrt(static_cast<double>(head_dim));
            forward.qkv = operands[0];
            forward.context = operands[1];
            forward.lse = operands.as(DType::fp32, 3);
            runtime::AttentionBackward backward;
            backward.shape = shape;
            backward.scale = forward.scale;
            backward.dcontext = operands[4];
            backward.qkv = forward.qkv;
            backward.context = forward.context;
            backward.lse = forward.lse;
            backward.dqkv = operands[2];
            const auto attend = [&](Kernels& kernels) { kernels.attention(forward); };
            if (!busy) timer.keep_busy(attend);
            busy = true;
            timings.forward.push_back({shape.batch, shape.sequence, shape.heads, shape.kv_heads,
                                       head_dim, timer.warm_us(attend)});
            const auto differentiate = [&](Kernels& kernels) {
                kernels.attention_backward(backward);
            };
            timings.backward_us.push_back(timer.warm_us(differentiate));
            constexpr std::size_t kEvery = 4;  // shape is timed with dropout as well
            if (timings.forward.size() % kEvery != 0) continue;
            forward.dropout.key = backward.dropout.key = {{1, 1, 1}, 0.1};
            forward.dropout.total_heads = backward.dropout.total_heads = shape.heads;
            const double pairs = fit::pairs_of(timings.forward.back());
            timings.dropout_ps.push_back(
                1e6 * (timer.warm_us(attend) - timings.forward.back().time_us) / pairs);
            timings.dropout_backward_ps.push_back(
                1e6 * (timer.warm_us(differentiate) - timings.backward_us.back()) / pairs);
        }
    }
    return timings;
}

std::vector<ProductRow> time_attention_products(DeviceTimer& timer, DeviceOperands& operands,
                                                const DeviceGrid& grid) {
    std::vector<ProductRow> rows;
    operands.fill(DType::bf16);
    const std::int64_t element = plan::size_bytes(DType::bf16);
    for (const std::int64_t head_dim : grid.head_dims)
        for (std::int64_t sequence = grid.least_sequence; sequence <= grid.most_sequence / 2;
             sequence *= 2) {
            constexpr std::int64_t kHeads = 8;
            runtime::AttentionProduct product;
            product.form = runtime::AttentionProductForm::scores;
            product.shape = {1, sequence, kHeads, kHeads, head_dim};
            product.scale = 1 / std::sqrt(static_cast<double>(head_dim));
            product.qkv = operands[0];
            product.maps = operands[1];
            const std::int64_t maps = kHeads * sequence * sequence;
            if (maps * element > operands.part_bytes()) break;
            const double us =
                timer.cold_us([&](Kernels& kernels) { kernels.attention_product(product); });
            rows.push_back(
                {2 * static_cast<double>(maps * head_dim),
                 static_cast<double>(element * (2 * kHeads * sequence * head_dim + maps)), us});
        }
    return rows;
}

}  // namespace orrery::measure
