#include "runtime/kernels/cuda_capability.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/kernels/eight_bit_capability.hpp"

namespace orrery::runtime {
namespace {

using plan::OpKind;

// Of the tiles in runtime/cuda/attention_tile.cuh.
constexpr std::int64_t kWidestHead = 256;

// What a walk over all ops of a plan has found.
struct Lacking {
    bool fp64 = false;
    std::int64_t widest_head = 0;
    std::set<std::string> kinds;
};

// Whether the op hands on statistics of gradients, over stages: as they are.
bool hands_on_statistics(const plan::Block& block, const plan::Op& op) {
    if (op.is<plan::Exchange>()) return true;  // bytes
    if (!op.is<plan::Add>() && !op.is<plan::Cast>()) return false;
    const auto is_scalar = [&](plan::TensorId id) {
        return block.tensors[static_cast<std::size_t>(id)].role == plan::Role::scalar;
    };
    return std::any_of(op.reads.begin(), op.reads.end(), is_scalar) ||
           std::any_of(op.writes.begin(), op.writes.end(), is_scalar);
}

// Scalars are counted, summed and judged in fp64 whatever the precision is.
void look_at_types(const plan::Block& block, const plan::Op& op, Lacking& lacking) {
    for (const auto* ids : {&op.reads, &op.writes})
        for (const plan::TensorId id : *ids) {
            const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
            if (tensor.role != plan::Role::scalar && tensor.dtype == plan::DType::fp64 &&
                !hands_on_statistics(block, op))
                lacking.fp64 = true;
        }
}

// Are refused by what they are for.
bool is_of_eight_bits(OpKind kind) {
    return kind == OpKind::amax_rows || kind == OpKind::quantize_rows;
}

void look_at_attention(const plan::Op& op, Lacking& lacking) {
    std::visit(
        [&](const auto& spec) {
            if constexpr (requires { spec.queries + spec.head_dim; })
                lacking.widest_head = std::max(lacking.widest_head, spec.head_dim);
            if constexpr (requires { spec.queries + spec.value_dim; })
                lacking.widest_head = std::max(lacking.widest_head, spec.values());
        },
        op.spec);
}

Lacking lacking_of(const plan::Plan& plan, bool (*has_kernel)(OpKind)) {
    Lacking lacking;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops) {
            if (!has_kernel(op.kind()) && !is_of_eight_bits(op.kind()))
                lacking.kinds.insert(std::string(plan::name(op.kind())));
            look_at_types(block, op, lacking);
            look_at_attention(op, lacking);
        }
    return lacking;
}

plan::Diagnostic reason(const char* code, const std::string& file, const char* pointer,
                        std::string value, std::string message, std::vector<std::string> help) {
    plan::Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.file = file;
    diagnostic.pointer = pointer;
    diagnostic.value = std::move(value);
    diagnostic.message = std::move(message);
    diagnostic.help = std::move(help);
    return diagnostic;
}

}  // namespace

// Every kind is named: a new one has to be put on one side or the other.
bool has_cuda_kernel(OpKind kind) {
    switch (kind) {
        case OpKind::gemm:
        case OpKind::batched_gemm:
        case OpKind::attention:
        case OpKind::attention_backward:
        case OpKind::attention_block:
        case OpKind::attention_block_backward:
        case OpKind::rearrange:
        case OpKind::softmax:
        case OpKind::softmax_backward:
        case OpKind::dropout:
        case OpKind::dropout_backward:
        case OpKind::norm:
        case OpKind::norm_backward:
        case OpKind::activation:
        case OpKind::activation_backward:
        case OpKind::rope:
        case OpKind::rope_backward:
        case OpKind::qk_norm:
        case OpKind::qk_norm_sums:
        case OpKind::qk_norm_backward:
        case OpKind::temper_queries:
        case OpKind::latent_heads:
        case OpKind::latent_heads_backward:
        case OpKind::residual_add:
        case OpKind::residual_norm:
        case OpKind::add:
        case OpKind::bias_gradient:
        case OpKind::embedding:
        case OpKind::embedding_backward:
        case OpKind::cross_entropy_max:
        case OpKind::cross_entropy_sum:
        case OpKind::cross_entropy_join:
        case OpKind::cross_entropy:
        case OpKind::cross_entropy_backward:
        case OpKind::gradient_norm:
        case OpKind::unscale:
        case OpKind::update_loss_scale:
        case OpKind::loss_share:
        case OpKind::judge_loss:
        case OpKind::adamw:
        case OpKind::cast:
        case OpKind::all_reduce:
        case OpKind::all_gather:
        case OpKind::reduce_scatter:
        case OpKind::broadcast:
        case OpKind::exchange:
        case OpKind::all_to_all:
        case OpKind::route:
        case OpKind::route_backward:
        case OpKind::count_choices:
        case OpKind::balance_gradient:
        case OpKind::load_gradient:
        case OpKind::router_z_gradient:
        case OpKind::weigh_rows:
        case OpKind::weigh_rows_backward:
        case OpKind::expert_bias:
        case OpKind::expert_bias_backward:
        case OpKind::permute:
        case OpKind::unpermute:
        case OpKind::group_rows:
        case OpKind::choose_ranks:
        case OpKind::drop_rows:
        case OpKind::spread_rows:
        case OpKind::spread_weights:
        case OpKind::grouped_gemm:
        case OpKind::expert_activation:
        case OpKind::expert_activation_backward:
        case OpKind::gate_rows:
        case OpKind::gate_rows_backward:
        case OpKind::all_to_all_v:
        case OpKind::shift:
        case OpKind::copy_to_device:
        case OpKind::copy_to_host:
        case OpKind::read_disk:
        case OpKind::write_disk:
        case OpKind::amax:
        case OpKind::quantize:
        case OpKind::transpose:
        case OpKind::update_scales:
        case OpKind::collect_amaxes:
        case OpKind::spread_amaxes:
            return true;
        case OpKind::amax_rows:
        case OpKind::quantize_rows:
            return false;
    }
    return false;
}

std::vector<plan::Diagnostic> reasons_not_on_cuda(const plan::Plan& plan, const std::string& file,
                                                  bool (*has_kernel)(OpKind)) {
    const Lacking lacking = lacking_of(plan, has_kernel);
    std::vector<plan::Diagnostic> reasons;
    if (lacking.fp64)
        reasons.push_back(reason("T101", file, "/training/precision", "\"fp64\"",
                                 "CUDA kernels know fp32, bf16 and fp16",
                                 {"--set training.precision=fp32"}));
    if (lacking.widest_head > kWidestHead) {
        reasons.push_back(reason("T102", file, "/model", "",
                                 "a head is wider than the tiles of CUDA's attention",
                                 {"--set training.attention_kernel=unfused"}));
        reasons.back().arithmetic = "head_dim = " + std::to_string(lacking.widest_head) + " > " +
                                    std::to_string(kWidestHead);
    }
    for (plan::Diagnostic& more :
         reasons_not_in_eight_bits(plan, file, {.code = "T103", .who = "CUDA kernels"}))
        reasons.push_back(std::move(more));
    for (const std::string& kind : lacking.kinds)
        reasons.push_back(reason("T103", file, "", "", "CUDA has no kernel for " + kind, {}));
    return reasons;
}

}  // namespace orrery::runtime
