#include "calib/measure/device_experts.hpp"

#include <algorithm>
#include <span>

#include "calib/measure/size_draw.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::measure {
namespace {

using plan::DType;
using plan::GemmProduct;

constexpr std::int64_t kFewestExperts = 2, kMostExperts = 32;
constexpr std::int64_t kCounts = 3;  // part of the operands that has them

// As a plan has it, when as many rows come to each expert.
plan::GroupedGemm product_of_experts(std::int64_t experts, std::int64_t rows, std::int64_t n,
                                     std::int64_t k, GemmProduct product) {
    plan::GroupedGemm op;
    op.experts = experts;
    op.expected = experts * rows;
    op.product = product;
    op.m = op.expected;
    op.n = n;
    op.k = k;
    if (product != GemmProduct::weight_gradient) return op;
    op.m = n;
    op.n = k;
    op.k = op.expected;
    return op;
}

// Of the largest operand, in elements.
std::int64_t most_elements(std::int64_t experts, std::int64_t rows, std::int64_t n,
                           std::int64_t k) {
    return experts * std::max({n * k, rows * n, rows * k});
}

runtime::GroupedGemm request(const plan::GroupedGemm& op, const DeviceOperands& operands) {
    runtime::GroupedGemm request;
    request.form = runtime::form_of(op.product);
    request.m = op.m;
    request.n = op.n;
    request.k = op.k;
    request.places.experts = op.experts;
    request.places.counts = static_cast<const std::int32_t*>(operands[kCounts].data);
    request.places.room = op.expected;
    request.a = operands[0];
    request.b = operands[1];
    request.c = operands[2];
    return request;
}

void write_counts(runtime::StreamDriver& driver, const DeviceOperands& operands,
                  std::int64_t experts, std::int64_t rows) {
    const std::vector<std::int32_t> counts(static_cast<std::size_t>(experts),
                                           static_cast<std::int32_t>(rows));
    driver.write(static_cast<std::byte*>(operands[kCounts].data), std::as_bytes(std::span(counts)));
}

}  // namespace

std::vector<fit::ExpertTiming> time_expert_products(runtime::StreamDriver& driver,
                                                    DeviceTimer& timer, DeviceOperands& operands,
                                                    const DeviceGrid& grid) {
    constexpr std::int64_t kMultiple = 64;
    SizeDraw draw;
    std::vector<fit::ExpertTiming> timings;
    operands.fill(DType::bf16);
    const std::int64_t room = operands.part_bytes() / plan::size_bytes(DType::bf16);
    std::int64_t experts = kFewestExperts;
    for (int shape = 0; shape < grid.expert_shapes && timer.in_time(); ++shape) {
        const std::int64_t rows = draw(grid.gemm_low, grid.gemm_high / 4, kMultiple);
        const std::int64_t n = draw(grid.gemm_low, grid.gemm_high / 4, kMultiple);
        const std::int64_t k = draw(grid.gemm_low, grid.gemm_high / 4, kMultiple);
        while (most_elements(experts, rows, n, k) > room)
            experts /= 2;
        write_counts(driver, operands, experts, rows);
        for (const auto& [product, form] : runtime::kGemmForms) {
            fit::ExpertTiming timing{product_of_experts(experts, rows, n, k, product), 0};
            const runtime::GroupedGemm asked = request(timing.product, operands);
            timing.time_us =
                timer.cold_us([&](runtime::Kernels& kernels) { kernels.grouped_gemm(asked); });
            timings.push_back(timing);
        }
        experts = experts >= kMostExperts ? kFewestExperts : 2 * experts;
    }
    return timings;
}

}  // namespace orrery::measure
