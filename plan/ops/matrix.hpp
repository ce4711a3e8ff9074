// Matrix products.
#pragma once

#include <algorithm>

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

// Of a gemm with m, n, k; weights are [out, in]. Where a factor f is not 1, f·(a product) stands in
// each product's place.
enum class GemmProduct : std::uint8_t {
    forward,         // C[m,n] = A[m,k]·W[n,k]ᵀ, + bias[n] where a third tensor is read
    input_gradient,  // dA[m,n] = dC[m,k]·W[k,n]
    weight_gradient  // dW[m,n] += dC[k,m]ᵀ·A[k,n]
};
template <>
struct Spelling<GemmProduct> {
    static constexpr std::array<std::string_view, 3> names = {"forward", "input_gradient",
                                                              "weight_gradient"};
};

// `transposed`: what the gradients' products read by columns lies transposed, so that both operands
// are rows of k: C[m,n] = A[m,k]·B[n,k]ᵀ.
struct Gemm {
    static constexpr std::string_view kDoc =
        "a linear's product: of its input and weight, of their gradients";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0;
    GemmProduct product = GemmProduct::forward;
    double factor = 1;  // of the product, before what is added to it
    bool transposed = false;

    // Rows of activations, which are all that a part of an op has fewer of: a weight's gradient
    // sums over them.
    std::int64_t& rows() { return product == GemmProduct::weight_gradient ? k : m; }
    std::int64_t rows() const { return product == GemmProduct::weight_gradient ? k : m; }
    double flops() const {
        return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &Gemm::m);
        v.size("n", &Gemm::n);
        v.size("k", &Gemm::k);
        v.number("product", &Gemm::product);
        v.number("factor", &Gemm::factor);
        v.number("transposed", &Gemm::transposed);
    }
    template <typename V>
    void operands(V&& v) const {
        switch (product) {
            case GemmProduct::forward:
                v.reads("input", m, k);
                v.reads("weight", n, k);
                v.may_read("bias", n);
                break;
            case GemmProduct::input_gradient:
                v.reads("doutput", m, k);
                v.reads("weight", transposed ? n : k, transposed ? k : n);
                break;
            case GemmProduct::weight_gradient:
                v.reads("doutput", transposed ? m : k, transposed ? k : m);
                v.reads("input", transposed ? n : k, transposed ? k : n);
                break;
        }
        v.may_read("scales", 1);  // of eight bits, of either operand
        v.may_read("scales", 1);
        v.writes_whole_or_halves("result", m * n);
    }
    bool operator==(const Gemm&) const = default;
};

// Of a batched_gemm of unfused attention: which tensor comes of it.
enum class AttentionProduct : std::uint8_t {
    scores,         // Q·Kᵀ
    context,        // P·V
    probabilities,  // dP = dC·Vᵀ
    values,         // dV = Pᵀ·dC
    queries,        // dQ = dS·K
    keys            // dK = dSᵀ·Q
};
template <>
struct Spelling<AttentionProduct> {
    static constexpr std::array<std::string_view, 6> names = {"scores", "context", "probabilities",
                                                              "values", "queries", "keys"};
};

struct BatchedGemm {
    static constexpr std::string_view kDoc =
        "a product of unfused attention, one per sample and head";
    static constexpr OpFamily kFamily = OpFamily::matrix;
    std::int64_t m = 0, n = 0, k = 0, batch = 0;
    std::int64_t heads = 0, kv_heads = 0;  // of this rank; batch = samples · heads
    AttentionProduct product = AttentionProduct::scores;
    double scale = 1;            // of the scores
    std::int64_t other_dim = 0;  // of the heads of packed rows that are not multiplied: of values
                                 // beside queries and keys, or of these beside values; 0: alike

    std::int64_t sequence() const { return m; }
    bool leaves_maps() const {
        return product == AttentionProduct::scores || product == AttentionProduct::probabilities;
    }
    bool of_values() const {
        return product == AttentionProduct::context || product == AttentionProduct::probabilities ||
               product == AttentionProduct::values;
    }
    std::int64_t multiplied_dim() const { return leaves_maps() ? k : n; }
    std::int64_t head_dim() const {
        return of_values() && other_dim > 0 ? other_dim : multiplied_dim();
    }
    std::int64_t value_dim() const {
        return of_values() || other_dim == 0 ? multiplied_dim() : other_dim;
    }
    double flops() const {
        return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
               static_cast<double>(batch);
    }
    template <typename V>
    static void fields(V&& v) {
        v.size("m", &BatchedGemm::m);
        v.size("n", &BatchedGemm::n);
        v.size("k", &BatchedGemm::k);
        v.size("batch", &BatchedGemm::batch);
        v.extent("heads", &BatchedGemm::heads);
        v.extent("kv_heads", &BatchedGemm::kv_heads);
        v.number("product", &BatchedGemm::product);
        v.number("scale", &BatchedGemm::scale);
        v.number("other_dim", &BatchedGemm::other_dim);
    }
    template <typename V>
    void operands(V&& v) const {
        const std::int64_t maps = batch * m * (leaves_maps() ? n : k);
        const std::int64_t rows = batch / std::max<std::int64_t>(heads, 1) * m;
        const std::int64_t context = rows * heads * value_dim();
        const std::int64_t qkv = rows * ((heads + kv_heads) * head_dim() + kv_heads * value_dim());
        switch (product) {
            case AttentionProduct::scores:
                v.reads("qkv", qkv);
                v.writes("scores", maps);
                return;
            case AttentionProduct::context:
                v.reads("probabilities", maps);
                v.reads("qkv", qkv);
                v.writes("context", context);
                return;
            case AttentionProduct::probabilities:
                v.reads("dcontext", context);
                v.reads("qkv", qkv);
                v.writes("dprobabilities", maps);
                return;
            case AttentionProduct::values:
                v.reads("probabilities", maps);
                v.reads("dcontext", context);
                v.writes("dqkv", qkv);
                return;
            case AttentionProduct::queries:
            case AttentionProduct::keys:
                v.reads("dscores", maps);
                v.reads("qkv", qkv);
                v.writes("dqkv", qkv);
                return;
        }
    }
    bool operator==(const BatchedGemm&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_MATRIX_OPS(OP)     \
    OP(gemm, Gemm)                \
    OP(batched_gemm, BatchedGemm)
// clang-format on
