// What the actions of a stage expand to: block uses in issue order, with what the passes put
// between.
#pragma once

#include <compare>
#include <cstdint>

#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

// The gradients that no action of this rank adds to after this one.
struct Completes {
    bool on_the_way = false;  // the stage's, of parts whose backward pass is not split
    bool waiting = false;     // … of those whose is, too
    bool tied = false;        // both of a tied embedding that this rank holds for both its uses
    auto operator<=>(const Completes&) const = default;
};

// gathers: false where a micro-batch still in flight has left the parameters gathered.
std::int32_t add_forward(ProgramBuilder& builder, const Stage& stage, bool gathers);

// Of a step's first micro-batch, which gathers what the step before has changed, and casts weights;
// −1: nothing.
std::int32_t add_first_forward(ProgramBuilder& builder, const Stage& stage);

// kind: backward, or one of its halves.
std::int32_t add_backward(ProgramBuilder& builder, const Stage& stage, ActionKind kind,
                          const Completes& completes);

}  // namespace orrery::plan
