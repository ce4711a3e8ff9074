// What the actions of a stage expand to: block uses in issue order, with what the passes put
// between.
#pragma once

#include <cstdint>

#include "plan/build/program_builder.hpp"

namespace orrery::plan {

// Indices into Program::procedures.
struct StageProcedures {
    std::int32_t forward = -1;
    std::int32_t backward = -1;
    std::int32_t last_backward = -1;  // of the last micro-batch: gradients are complete after it
};

StageProcedures add_procedures(ProgramBuilder& builder, const Stage& stage);

// The forward pass of a micro-batch that finds the parameters gathered already, by one that is
// still in flight.
std::int32_t add_gathered_forward(ProgramBuilder& builder, const Stage& stage);

}  // namespace orrery::plan
