// Products whose kernel does, before it writes, what a kernel of rows would do behind it.
#pragma once

#include "plan/ops/matrix.hpp"
#include "plan/ops/rows.hpp"

namespace orrery::plan {

// Functions that products can take along: cuBLASLt has GELU by its tanh
// (CUBLASLT_EPILOGUE_GELU_AUX) and its slope (CUBLASLT_EPILOGUE_DGELU); its ReLU keeps bits where
// backward reads a result.
constexpr bool is_taken_along(ActivationFunction function) {
    return function == ActivationFunction::gelu_tanh;
}

// Forward keeps what the function is taken of where backward's slope is told by it; the gradient of
// an input is multiplied with the slope. Both are rounded to their type before they go on, so that
// all comes out as it does apart.
struct ActivatedGemm {
    static constexpr std::string_view kDoc =
        "a product and the function of it, or the gradient of an input that was a function's "
        "result, times the slope (cuBLASLt's epilogues GELU_AUX and DGELU)";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0;
    GemmProduct product = GemmProduct::forward;  // or of an input's gradient
    double factor = 1;                           // of the product
    ActivationFunction function = ActivationFunction::gelu_tanh;

    bool is_forward() const { return product == GemmProduct::forward; }
    Gemm gemm() const { return {m, n, k, product, factor}; }
    double flops() const { return gemm().flops(); }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &ActivatedGemm::m);
        v.size("n", &ActivatedGemm::n);
        v.size("k", &ActivatedGemm::k);
        v.number("product", &ActivatedGemm::product);
        v.number("factor", &ActivatedGemm::factor);
        v.number("function", &ActivatedGemm::function);
    }
    template <typename V>
    void operands(V&& v) const {
        if (is_forward()) {
            v.reads("input", m, k);
            v.reads("weight", n, k);
            v.may_read("bias", n);
        } else {
            v.reads("doutput", m, k);
            v.reads("weight", k, n);
            v.reads("input of the function", m * n);
        }
        v.writes("result", m * n);
        if (is_forward()) v.may_write("product", m * n);
    }
    bool operator==(const ActivatedGemm&) const = default;
};

// C[m,n] = factor·A[m,k]·W[n,k]ᵀ + bias + residual: the sum is rounded once, where a product and a
// residual_add behind it round twice.
struct ResidualGemm {
    static constexpr std::string_view kDoc =
        "a product, and the residual that is added to it (cuBLASLt's C with beta 1)";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0;
    double factor = 1;  // of the product

    Gemm gemm() const { return {m, n, k, GemmProduct::forward, factor}; }
    double flops() const { return gemm().flops(); }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &ResidualGemm::m);
        v.size("n", &ResidualGemm::n);
        v.size("k", &ResidualGemm::k);
        v.number("factor", &ResidualGemm::factor);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", m, k);
        v.reads("weight", n, k);
        v.reads("residual", m * n);
        v.may_read("bias", n);
        v.writes("sum", m * n);
    }
    bool operator==(const ResidualGemm&) const = default;
};

// A weight's gradient reads the rows of which its bias's gradient is the sum: dW[m,n] +=
// dC[k,m]ᵀ·A[k,n], db[m] += Σ over k of dC.
struct BiasGradientGemm {
    static constexpr std::string_view kDoc =
        "the gradients of a linear's weight and of its bias, of one reading of its output's "
        "(cuBLASLt's epilogue BGRADB)";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0;

    Gemm gemm() const { return {m, n, k, GemmProduct::weight_gradient}; }
    double flops() const { return gemm().flops(); }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &BiasGradientGemm::m);
        v.size("n", &BiasGradientGemm::n);
        v.size("k", &BiasGradientGemm::k);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", k, m);
        v.reads("input", k, n);
        v.writes("dweight", m * n);
        v.writes("dbias", m);
    }
    bool operator==(const BiasGradientGemm&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_EPILOGUE_OPS(OP)          \
    OP(activated_gemm, ActivatedGemm)    \
    OP(residual_gemm, ResidualGemm)      \
    OP(bias_gradient_gemm, BiasGradientGemm)
// clang-format on
