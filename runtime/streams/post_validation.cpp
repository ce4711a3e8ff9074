#include "runtime/streams/post_validation.hpp"

#include <array>

#include "runtime/kernels/gradient_rules.hpp"
#include "runtime/kernels/scalar_rules.hpp"

namespace orrery::runtime {

void PostValidation::run(const StepInputs& inputs) {
    const Validation& validation = program_.validation;
    parts_.perform(0, validation.first, inputs);
    if (to_validate_ && !validated_as_taken(inputs)) parts_.perform(0, validation.first, inputs);
    parts_.perform(validation.end, static_cast<std::uint32_t>(program_.ops.size()), inputs);
    to_validate_ = true;
    taken_ = inputs;
    taken_.tokens = {};
}

PostValidation::PostValidation(const BoundProgram& program, StepParts& parts)
    : program_(program), parts_(parts) {
    for (const BoundOp& bound : program.validation.amendment->ops)
        if (bound.op->is<plan::AdamW>()) clip_norm_ = bound.op->as<plan::AdamW>().clip_norm;
}

void PostValidation::validate() {
    if (to_validate_) validated_as_taken(taken_);
}

// Whether the step before stands as it was taken; if not, it has been amended. Every rank finds the
// same.
bool PostValidation::validated_as_taken(const StepInputs& inputs) {
    parts_.perform(program_.validation.first, program_.validation.end, inputs);
    to_validate_ = false;
    if (!calls_for_amendment()) return true;
    parts_.amend(taken_);
    return false;
}

bool PostValidation::calls_for_amendment() const {
    std::array<double, kNormBins> bins{};
    float overflow = 0;
    const std::int64_t norm = program_.scalar("norm"), overflowed = program_.scalar("overflow");
    if (norm >= 0) parts_.read(norm, std::as_writable_bytes(std::span(bins)));
    if (overflowed >= 0) parts_.read(overflowed, std::as_writable_bytes(std::span(&overflow, 1)));
    return runtime::calls_for_amendment(norm < 0 ? nullptr : bins.data(), clip_norm_,
                                        overflowed < 0 ? nullptr : &overflow);
}

}  // namespace orrery::runtime
