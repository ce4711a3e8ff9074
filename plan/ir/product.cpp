#include "plan/ir/product.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "plan/ir/check.hpp"

namespace orrery::plan {
namespace {

const Tensor& tensor_of(const Block& block, TensorId id) {
    return block.tensors[static_cast<std::size_t>(id)];
}

}  // namespace

GemmProduct product_of_gemm(const Block& block, const Op& op) {
    if (!op.writes.empty() && tensor_of(block, op.writes.front()).role == Role::gradient)
        return GemmProduct::weight_gradient;
    return op.phase == Phase::backward ? GemmProduct::input_gradient : GemmProduct::forward;
}

namespace {

constexpr std::array<std::pair<GemmProduct, std::string_view>, 3> kGemmProducts = {
    {{GemmProduct::forward, "forward"},
     {GemmProduct::input_gradient, "input_gradient"},
     {GemmProduct::weight_gradient, "weight_gradient"}}};

}  // namespace

std::string_view name(GemmProduct product) {
    return kGemmProducts[static_cast<std::size_t>(product)].second;
}

std::optional<GemmProduct> gemm_product_from_name(std::string_view text) {
    for (const auto& [product, name] : kGemmProducts)
        if (name == text) return product;
    return std::nullopt;
}

AttentionProduct product_of_attention(const Op& op) {
    constexpr std::array<std::pair<std::string_view, AttentionProduct>, 6> kLabels = {
        {{kScores, AttentionProduct::scores},
         {kContext, AttentionProduct::context},
         {kProbabilityGradient, AttentionProduct::probabilities},
         {kValueGradient, AttentionProduct::values},
         {kQueryGradient, AttentionProduct::queries},
         {kKeyGradient, AttentionProduct::keys}}};
    for (const auto& [label, product] : kLabels)
        if (op.label == label) return product;
    ORRERY_CHECK(false, "no product of attention is called " + op.label);
    return AttentionProduct::scores;
}

bool takes_largest(const Block& block, const Op& op) {
    return op.kind == OpKind::all_reduce &&
           std::any_of(block.ops.begin(), block.ops.end(), [&](const Op& other) {
               return (other.kind == OpKind::cross_entropy_max || other.kind == OpKind::amax) &&
                      other.writes.front() == op.writes.front();
           });
}

bool accumulates(const Block& block, const Op& op) {
    if (is_communication(op.kind) || op.kind == OpKind::adamw ||
        op.kind == OpKind::update_loss_scale || op.kind == OpKind::judge_loss)
        return false;
    return std::any_of(op.writes.begin(), op.writes.end(), [&](TensorId id) {
        const Role role = tensor_of(block, id).role;
        const bool sum =
            role == Role::gradient || role == Role::gradient_shard || role == Role::scalar;
        return sum && std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
    });
}

}  // namespace orrery::plan
