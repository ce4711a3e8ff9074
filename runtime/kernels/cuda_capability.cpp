#include "runtime/kernels/cuda_capability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/kernels/eight_bit_capability.hpp"

namespace orrery::runtime {
namespace {

using plan::OpKind;

// Of the tiles in runtime/cuda/attention_tile.cuh.
constexpr std::int64_t kWidestHead = 256;
// CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD must be a multiple of it.
constexpr std::int64_t kEpilogueWidths = 8;

// What a walk over all ops of a plan has found.
struct Lacking {
    bool fp64 = false;
    std::int64_t widest_head = 0;
    std::int64_t odd_epilogue = 0;  // a width; 0: none
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
            if (!has_kernel(op.kind())) lacking.kinds.insert(std::string(plan::name(op.kind())));
            look_at_types(block, op, lacking);
            look_at_attention(op, lacking);
            if (const auto* product = std::get_if<plan::ActivatedGemm>(&op.spec))
                if (product->n % kEpilogueWidths != 0) lacking.odd_epilogue = product->n;
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

// CUDA has a function for each request, or its build does not link: what the executor asks for an
// op it performs.
bool has_cuda_kernel(OpKind) {
    return true;
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
    if (lacking.odd_epilogue > 0) {
        reasons.push_back(reason("T109", file, "/training/activation_kernel", "\"epilogue\"",
                                 "cuBLASLt takes GELU along where an MLP's width on a rank is a "
                                 "multiple of 8",
                                 {"--set training.activation_kernel=own"}));
        reasons.back().arithmetic = fmt::format("{0} = 8 · {1} + {2}", lacking.odd_epilogue,
                                                lacking.odd_epilogue / 8, lacking.odd_epilogue % 8);
    }
    for (plan::Diagnostic& more :
         reasons_not_in_eight_bits(plan, file, {.code = "T103", .who = "CUDA kernels"}))
        reasons.push_back(std::move(more));
    for (const std::string& kind : lacking.kinds)
        reasons.push_back(reason("T103", file, "", "", "CUDA has no kernel for " + kind, {}));
    return reasons;
}

}  // namespace orrery::runtime
