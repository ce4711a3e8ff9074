#include <algorithm>
#include <cmath>
#include <string>

#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

struct Size {
    std::int64_t m, n, k;
};

std::string text(const char* form, const Size& size, const char* rest) {
    return std::string(form) + " " + std::to_string(size.m) + "x" + std::to_string(size.n) + "x" +
           std::to_string(size.k) + rest;
}

// In some of its kernels cuBLASLt (13.1, on an H100) rounds a product to a 16-bit result's type
// before it adds a bias or what was there: off by a unit of the product, which is the result
// without what is added. The result's own part is in every bound.
double rounding_before(const Tensor& result, const Values& added) {
    if (result.dtype == DType::fp32) return 0;
    double largest = 0;
    for (const double value : added)
        largest = std::max(largest, std::abs(value));
    return unit_of(result.dtype) * largest;
}

void check_form(World& world, GemmForm form, const char* name, const Size& size) {
    const bool biased = form == GemmForm::forward;
    world.begin("gemm", text(name, size, biased ? ", bias" : ""));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    const Values added = normals(size.n, 3);
    Tensor& bias = world.in(added);
    Tensor& c = world.out(size.m * size.n);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gemm({form, size.m, size.n, size.k, at(a), at(b), biased ? at(bias) : Buffer{},
                      at(c), false});
    });
    world.expect_close("c", c, roundings_of_sum(size.k), biased ? rounding_before(c, added) : 0);
}

// Where a residual stands for what was there, the result is another tensor.
void check_residual(World& world, const Size& size, bool biased) {
    world.begin("gemm", text("forward", size, biased ? ", bias, residual" : ", residual"));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    Values added = normals(size.n, 3);
    Tensor& bias = world.in(added);
    const Values before = normals(size.m * size.n, 4);
    Tensor& residual = world.in(before);
    Tensor& c = world.out(size.m * size.n);
    world.run([&](Kernels& kernels, const Place& at) {
        Gemm op{GemmForm::forward, size.m, size.n, size.k, at(a), at(b), {}, at(c)};
        if (biased) op.bias = at(bias);
        op.residual = at(residual);
        kernels.gemm(op);
    });
    added.insert(added.end(), before.begin(), before.end());
    world.expect_close("c", c, roundings_of_sum(size.k), 2 * rounding_before(c, added));
    world.expect_same("residual", residual);
}

// GELU's slope is nowhere more than this.
constexpr double kGeluSlope = 1.13;

// The oracle rounds a sum before the function is taken of it, which a device does not. Beyond 4
// GELU is next to the sum, or to 0, so that the result's own part of the bound has it.
void check_epilogue(World& world, const Size& size, bool kept) {
    world.begin("activated_gemm", text("forward", size, kept ? ", bias, kept" : ""));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    const Values added = normals(size.n, 3);
    Tensor& bias = world.in(added);
    Tensor& before = world.out(size.m * size.n);
    Tensor& c = world.out(size.m * size.n);
    world.run([&](Kernels& kernels, const Place& at) {
        ActivatedGemm op;
        op.product = {GemmForm::forward,          size.m, size.n, size.k, at(a), at(b),
                      at(kept ? &bias : nullptr), at(c),  false};
        op.before = at(kept ? &before : nullptr);
        kernels.activated_gemm(op);
    });
    const double apart = kept ? rounding_before(c, added) : 0;
    if (kept) world.expect_close("before", before, roundings_of_sum(size.k), apart);
    world.expect_close("c", c, kGeluSlope * roundings_of_sum(size.k) + 1,
                       kGeluSlope * (apart + 4 * unit_of(world.dtype())));
}

// One rounding more of the oracle's: of sums, hardly any of which is more than six deviations.
void check_slope(World& world, const Size& size) {
    world.begin("activated_gemm", text("input gradient", size, ""));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    Tensor& before = world.in(normals(size.m * size.n, 3));
    Tensor& c = world.out(size.m * size.n);
    world.run([&](Kernels& kernels, const Place& at) {
        ActivatedGemm op;
        op.product = {
            GemmForm::input_gradient, size.m, size.n, size.k, at(a), at(b), {}, at(c), false};
        op.before = at(before);
        kernels.activated_gemm(op);
    });
    world.expect_close(
        "c", c, kGeluSlope * roundings_of_sum(size.k) + 1,
        kGeluSlope * unit_of(world.dtype()) * 6 * std::sqrt(static_cast<double>(size.k)));
}

// Of adapters: the factor is of the product alone.
void check_factor(World& world, GemmForm form, const char* name, const Size& size) {
    world.begin("gemm", text(name, size, ", times 3/8, added"));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    const Values added = normals(size.m * size.n, 3);
    Tensor& c = world.in(added);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gemm({form, size.m, size.n, size.k, at(a), at(b), {}, at(c), true, 0.375});
    });
    world.expect_close("c", c, roundings_of_sum(size.k), rounding_before(c, added));
}

// Gradients of weights in fp32, and in the operands' type, with what is there already.
void check_gradient(World& world, DType type, const Size& size) {
    world.begin("gemm", text("weight gradient", size,
                             (", added to " + std::string(plan::name(type))).c_str()));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    const Values added = normals(size.m * size.n, 3);
    Tensor& c = world.in(type, added);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gemm(
            {GemmForm::weight_gradient, size.m, size.n, size.k, at(a), at(b), {}, at(c), true});
    });
    world.expect_close("c", c, roundings_of_sum(size.k), rounding_before(c, added));
}

// The sum is rounded to its type before it is added to another, which the oracle does not do;
// hardly one is more than six deviations.
void check_bias_gradient(World& world, DType type, const Size& size, bool accumulate) {
    world.begin(
        "bias_gradient_gemm",
        text("weight gradient", size,
             ((accumulate ? ", added to " : ", to ") + std::string(plan::name(type))).c_str()));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    const Values added = normals(size.m * size.n, 3);
    Tensor& c = world.in(type, added);
    Tensor& dbias = world.in(type, normals(size.m, 4));
    world.run([&](Kernels& kernels, const Place& at) {
        BiasGradientGemm op;
        op.product = {
            GemmForm::weight_gradient, size.m, size.n, size.k, at(a), at(b), {}, at(c), accumulate};
        op.dbias = at(dbias);
        kernels.bias_gradient_gemm(op);
    });
    world.expect_close("c", c, roundings_of_sum(size.k),
                       accumulate ? rounding_before(c, added) : 0);
    world.expect_close("dbias", dbias, roundings_of_sum(size.k),
                       accumulate ? unit_of(type) * 6 * std::sqrt(static_cast<double>(size.k)) : 0);
}

// Logits in fp32 of 16-bit operands: the bias is of another type than they.
void check_wide_result(World& world, const Size& size) {
    world.begin("gemm", text("forward", size, ", to fp32"));
    Tensor& a = world.in(normals(size.m * size.k, 1));
    Tensor& b = world.in(normals(size.n * size.k, 2));
    Tensor& bias = world.in(normals(size.n, 3));
    Tensor& c = world.out(DType::fp32, size.m * size.n);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gemm(
            {GemmForm::forward, size.m, size.n, size.k, at(a), at(b), at(bias), at(c), false});
    });
    world.expect_close("c", c, roundings_of_sum(size.k));
}

}  // namespace

void check_products(World& world) {
    std::vector<Size> sizes = {{1, 1, 1}, {5, 3, 7}, {37, 53, 29}, {64, 48, 128}};
    if (world.large()) sizes.insert(sizes.end(), {{1024, 768, 2304}, {511, 1537, 1031}});
    for (const Size& size : sizes) {
        check_form(world, GemmForm::forward, "forward", size);
        check_form(world, GemmForm::input_gradient, "input gradient", size);
        check_form(world, GemmForm::weight_gradient, "weight gradient", size);
        check_factor(world, GemmForm::forward, "forward", size);
        check_factor(world, GemmForm::weight_gradient, "weight gradient", size);
        for (const bool biased : {true, false})
            check_residual(world, size, biased);
        check_gradient(world, world.dtype(), size);
        if (size.n % 8 == 0) {
            check_epilogue(world, size, true);
            check_epilogue(world, size, false);
            check_slope(world, size);
        }
        for (const bool accumulate : {true, false})
            check_bias_gradient(world, world.dtype(), size, accumulate);
        if (world.dtype() == DType::fp32) continue;
        for (const bool accumulate : {true, false})
            check_bias_gradient(world, DType::fp32, size, accumulate);
        check_gradient(world, DType::fp32, size);
        check_wide_result(world, size);
    }
}

}  // namespace orrery::runtime::gpu_check
