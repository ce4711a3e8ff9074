// Which product an op computes. Kinds and shapes price an op; whoever performs it must also know
// what is transposed, what is summed, and what the result is: told here from the op's place in its
// block, once for every backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/ir/block.hpp"

namespace orrery::plan {

// Of a gemm with m, n, k; weights are [out, in].
enum class GemmProduct : std::uint8_t {
    forward,         // C[m,n] = A[m,k]·W[n,k]ᵀ, + bias[n] where a third tensor is read
    input_gradient,  // dA[m,n] = dC[m,k]·W[k,n]
    weight_gradient  // dW[m,n] += dC[k,m]ᵀ·A[k,n]
};
GemmProduct product_of_gemm(const Block& block, const Op& op);

// "forward", "input_gradient", "weight_gradient".
std::string_view name(GemmProduct product);
std::optional<GemmProduct> gemm_product_from_name(std::string_view text);

// Of a batched_gemm of unfused attention: which tensor comes of it.
enum class AttentionProduct : std::uint8_t {
    scores,         // Q·Kᵀ
    context,        // P·V
    probabilities,  // dP = dC·Vᵀ
    values,         // dV = Pᵀ·dC
    queries,        // dQ = dS·K
    keys            // dK = dSᵀ·Q
};
AttentionProduct product_of_attention(const Op& op);

// Labels of the ops of unfused attention.
inline constexpr char kScores[] = "QK";
inline constexpr char kContext[] = "PV";
inline constexpr char kProbabilityGradient[] = "PV dP";
inline constexpr char kValueGradient[] = "PV dV";
inline constexpr char kQueryGradient[] = "QK dQ";
inline constexpr char kKeyGradient[] = "QK dK";

// Whether an all-reduce takes the largest instead of the sum: over what a cross_entropy_max or
// an amax left.
bool takes_largest(const Block& block, const Op& op);

// Whether the op adds to what it writes. The first such op of a step (in memory of a ring: of an
// action) finds nothing there and overwrites.
bool accumulates(const Block& block, const Op& op);

}  // namespace orrery::plan
