#include "runtime/kernels/eight_bit_capability.hpp"

#include <fmt/format.h>

#include <utility>

namespace orrery::runtime {
namespace {

struct Needs {
    bool products = false, blocks = false, experts = false, histories = false;
    bool held = false;   // parameters in eight bits
    bool parts = false;  // products of some of a matrix's rows
};

// Neither one for the matrix nor one for each of its rows.
bool are_of_blocks(const plan::Tensor& scales, const plan::Tensor& matrix) {
    return scales.elements() != 1 && (scales.dims.back() != 1 || scales.dims[0] != matrix.dims[0]);
}

void look_at(const plan::Block& block, const plan::Op& op, Needs& needs) {
    const auto read = [&](std::size_t i) -> const plan::Tensor& {
        return block.tensors[static_cast<std::size_t>(op.reads[i])];
    };
    needs.histories = needs.histories || op.is<plan::UpdateScales>();
    needs.experts = needs.experts || op.is<plan::QuantizeRows>();
    if (!op.is<plan::Gemm>() || !plan::is_eight_bit(read(0).dtype)) return;
    needs.products = true;
    needs.parts = needs.parts || op.parts > 1;
    needs.blocks =
        needs.blocks || are_of_blocks(read(2), read(0)) || are_of_blocks(read(3), read(1));
}

Needs needs_of(const plan::Plan& plan) {
    Needs needs;
    for (const plan::Block& block : plan.blocks) {
        for (const plan::Tensor& tensor : block.tensors)
            needs.held = needs.held ||
                         (tensor.role == plan::Role::parameter && plan::is_eight_bit(tensor.dtype));
        for (const plan::Op& op : block.ops)
            look_at(block, op, needs);
    }
    return needs;
}

}  // namespace

std::vector<plan::Diagnostic> reasons_not_in_eight_bits(const plan::Plan& plan,
                                                        const std::string& file,
                                                        const EightBitKernels& has) {
    const Needs needs = needs_of(plan);
    std::vector<plan::Diagnostic> reasons;
    const auto add = [&](const char* pointer, const std::string& what, std::string help) {
        plan::Diagnostic reason;
        reason.code = has.code;
        reason.file = file;
        reason.pointer = pointer;
        reason.message = fmt::format("{} have no {}", has.who, what);
        reason.help = {std::move(help)};
        reasons.push_back(std::move(reason));
    };
    if (needs.held)
        add("/training/fp8_param_gather", "kernels that step parameters of eight bits",
            "--set training.fp8_param_gather=false");
    if (needs.histories && needs.experts)
        add("/training/fp8_recipe", "scales of experts that follow from the steps before",
            "--set training.fp8_recipe=tensorwise");
    if (needs.blocks && !has.blocks)
        add("/training/fp8_recipe", "eight-bit products with scales of blocks",
            "--set training.fp8_recipe=tensorwise, or rowwise");
    if (needs.experts && !has.experts)
        add("/training/precision", "eight-bit products of experts",
            "--set training.precision=bf16, without keys that begin with fp8");
    if (needs.parts)
        add("/training/framework", "eight-bit products of parts of a matrix",
            "--set training.framework.tensor_overlap_parts=1");
    return reasons;
}

}  // namespace orrery::runtime
