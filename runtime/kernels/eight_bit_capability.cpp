#include "runtime/kernels/eight_bit_capability.hpp"

#include <fmt/format.h>

#include <utility>

namespace orrery::runtime {
namespace {

struct Needs {
    bool experts = false, histories = false;
    bool held = false;   // parameters in eight bits
    bool parts = false;  // products of some of a matrix's rows
};

void look_at(const plan::Block& block, const plan::Op& op, Needs& needs) {
    needs.histories = needs.histories || op.is<plan::UpdateScales>();
    needs.experts = needs.experts || op.is<plan::QuantizeRows>();
    if (!op.is<plan::Gemm>()) return;
    const plan::Tensor& a = block.tensors[static_cast<std::size_t>(op.reads[0])];
    needs.parts = needs.parts || (plan::is_eight_bit(a.dtype) && op.parts > 1);
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
                                                        const EightBitKernels& kernels) {
    const Needs needs = needs_of(plan);
    std::vector<plan::Diagnostic> reasons;
    const auto add = [&](const char* pointer, const std::string& what, std::string help) {
        plan::Diagnostic reason;
        reason.code = kernels.code;
        reason.file = file;
        reason.pointer = pointer;
        reason.message = fmt::format("{} have no {}", kernels.who, what);
        reason.help = {std::move(help)};
        reasons.push_back(std::move(reason));
    };
    if (needs.held)
        add("/training/fp8_param_gather", "kernels that step parameters of eight bits",
            "--set training.fp8_param_gather=false");
    if (needs.histories && needs.experts)
        add("/training/fp8_recipe", "scales of experts that follow from the steps before",
            "--set training.fp8_recipe=tensorwise");
    if (needs.parts)
        add("/training/framework", "eight-bit products of parts of a matrix",
            "--set training.framework.tensor_overlap_parts=1");
    return reasons;
}

}  // namespace orrery::runtime
