// Steps whose optimizer does not wait for the other stages (Validation): each is validated by the
// next one, which begins anew where it had to be amended. It is the only thing that the host
// decides while a step runs: that forward passes are done again no predicate of an op can say.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/executor/device.hpp"

namespace orrery::runtime {

// What a device does for it.
class StepParts {
  public:
    // Performs the ops [first, end) of the step, all of it once it returns.
    virtual void perform(std::uint32_t first, std::uint32_t end, const StepInputs& inputs) = 0;
    // Likewise Validation::amendment.
    virtual void amend(const StepInputs& inputs) = 0;
    virtual void read(std::int64_t offset, std::span<std::byte> into) const = 0;

  protected:
    ~StepParts() = default;
};

class PostValidation {
  public:
    // Both must outlive the object. The program has an amendment.
    PostValidation(const BoundProgram& program, StepParts& parts);

    // Up to where the step before is validated, which begins anew if that had to be amended; the
    // rest.
    void run(const StepInputs& inputs);

    // Device::validate.
    void validate();

  private:
    bool validated_as_taken(const StepInputs& inputs);
    bool calls_for_amendment() const;

    const BoundProgram& program_;
    double clip_norm_ = 0;  // that the amendment clips to; 0: it does not
    StepParts& parts_;
    StepInputs taken_;          // of the step that the next one validates, without its tokens …
    bool to_validate_ = false;  // … if there is one
};

}  // namespace orrery::runtime
