#include "calib/measure/kernel_timings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "calib/measure/operand.hpp"
#include "runtime/cpu/kernels.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::measure {
namespace {

using plan::DType;
using runtime::kernels;

constexpr double kMicro = 1e6;

// m, n, k. Bits of the engine and libm alone decide: every rank draws the same.
std::vector<std::array<std::int64_t, 3>> gemm_shapes(const KernelGrid& grid) {
    std::mt19937_64 bits(1);
    const auto draw = [&] {
        const double unit = static_cast<double>(bits() >> 11) * 0x1p-53;
        const auto low = static_cast<double>(grid.gemm_low);
        const double size = low * std::pow(static_cast<double>(grid.gemm_high) / low, unit);
        return std::max<std::int64_t>(1, std::llround(size / 8)) * 8;
    };
    std::vector<std::array<std::int64_t, 3>> shapes;
    while (shapes.size() < static_cast<std::size_t>(grid.gemm_shapes)) {
        const std::array<std::int64_t, 3> shape{draw(), draw(), draw()};
        const double flops =
            2.0 * static_cast<double>(shape[0] * shape[1]) * static_cast<double>(shape[2]);
        if (flops <= grid.gemm_most_flops) shapes.push_back(shape);
    }
    return shapes;
}

}  // namespace

std::vector<fit::GemmRow> time_gemm(runtime::Communicator& ranks, runtime::Team& team,
                                    const Sampling& sampling, const KernelGrid& grid, DType dtype) {
    std::vector<fit::GemmRow> rows;
    std::size_t index = 0;
    for (const auto& [m, n, k] : gemm_shapes(grid)) {
        if (!grid.has_turn(index++)) continue;
        Operand a(dtype, m * k);
        Operand b(dtype, k * n);
        // Of eight bits, with a scale for each matrix, to 16.
        Operand c(plan::is_eight_bit(dtype) ? DType::bf16 : dtype, m * n);
        Operand scale(DType::fp32, 1);
        const std::int64_t all = std::max({m, n, k});
        for (const auto& [product, form] : runtime::kGemmForms) {
            runtime::Gemm gemm{form, m, n, k, a, b, {}, c};
            if (plan::is_eight_bit(dtype)) gemm.a_scales = gemm.b_scales = {scale, all, all};
            const double seconds = timed(ranks, sampling, [&] { kernels().gemm(gemm, team); });
            rows.push_back({m, n, k, seconds * kMicro, product});
        }
    }
    return rows;
}

AttentionTimings time_attention(runtime::Communicator& ranks, runtime::Team& team,
                                const Sampling& sampling, const KernelGrid& grid) {
    AttentionTimings timings;
    std::size_t index = 0;
    for (const std::int64_t head_dim : grid.head_dims)
        for (const std::int64_t sequence : grid.sequences)
            for (const std::int64_t heads : {1, 2, 4, 8})
                for (const std::int64_t batch : {1, 2}) {
                    const runtime::AttentionShape shape{batch, sequence, heads, heads, head_dim};
                    const double flops = 4.0 * static_cast<double>(batch * heads * head_dim) *
                                         static_cast<double>(sequence * sequence) / 2;
                    if (flops > grid.attention_most_flops || !grid.has_turn(index++)) continue;
                    const std::int64_t tokens = batch * sequence;
                    Operand qkv(DType::fp32, tokens * shape.qkv_width());
                    Operand context(DType::fp32, tokens * shape.context_width());
                    Operand lse(DType::fp32, shape.maps() * sequence);
                    Operand dcontext(DType::fp32, tokens * shape.context_width());
                    Operand dqkv(DType::fp32, tokens * shape.qkv_width());
                    const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
                    const runtime::Attention forward{shape, {}, {}, scale, qkv, context, lse};
                    const runtime::AttentionBackward backward{shape, {},      {},  scale, dcontext,
                                                              qkv,   context, lse, dqkv};
                    const double seconds =
                        timed(ranks, sampling, [&] { kernels().attention(forward, team); });
                    timings.forward.push_back(
                        {batch, sequence, heads, heads, head_dim, seconds * kMicro});
                    timings.backward_us.push_back(kMicro * timed(ranks, sampling, [&] {
                                                      kernels().attention_backward(backward, team);
                                                  }));
                }
    return timings;
}

std::vector<ProductRow> time_attention_products(runtime::Communicator& ranks, runtime::Team& team,
                                                const Sampling& sampling, const KernelGrid& grid) {
    std::vector<ProductRow> rows;
    std::size_t index = 0;
    for (const std::int64_t head_dim : grid.head_dims)
        for (const std::int64_t sequence : grid.sequences) {
            if (!grid.has_turn(index++)) continue;
            constexpr std::int64_t kHeads = 4;
            const runtime::AttentionShape shape{1, sequence, kHeads, kHeads, head_dim};
            Operand qkv(DType::fp32, sequence * shape.qkv_width());
            Operand maps(DType::fp32, kHeads * sequence * sequence);
            const runtime::AttentionProduct product{
                runtime::AttentionProductForm::scores, shape, 0.1, qkv, maps, {}, {}};
            const double seconds =
                timed(ranks, sampling, [&] { kernels().attention_product(product, team); });
            const auto length = static_cast<double>(sequence);
            const auto depth = static_cast<double>(head_dim);
            rows.push_back({2 * kHeads * length * length * depth,
                            kHeads * 4 * length * (2 * depth + length), seconds * kMicro});
        }
    return rows;
}

double time_copy(runtime::Communicator& ranks, const Sampling& sampling, const KernelGrid& grid) {
    const auto elements = static_cast<std::int64_t>(grid.memory_high / 2 / sizeof(float));
    Operand from(DType::fp32, elements);
    Operand to(DType::fp32, elements);
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
    const double seconds =
        timed(ranks, sampling, [&] { std::memcpy(to.data(), from.data(), bytes); });
    return 2 * static_cast<double>(bytes) / seconds;
}

}  // namespace orrery::measure
