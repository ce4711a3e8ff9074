// From what the uses of a program touch to where that lies: every slot of every use, once, when all
// passes have run. Afterwards the plan says it, and nobody finds it out again.
#pragma once

#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

// Fills the slots of all procedures; those that a pass has filled stay. Where a tensor lies follows
// from its role:
//
//   stash, kept, deferred, recomputed, quantized   in the part's area among those of its stage; the
//                      activation or the gradient that the stage received, where it was received
//   input, output      the chain between parts: what a stage receives and hands out at its ends; in
//                      between the next part's area where that keeps it, else a frame
//   parameter, gradient                            in the bucket, at the parameter's own place
//   parameter_shard, gradient_shard, optimizer     in the bucket, from its start or its rank's
//   share scalar             among the program's scalars
//
// Blocks of one part know a tensor by its name, which is told apart here for the last time.
void bind_uses(ProgramBuilder& builder);

}  // namespace orrery::plan
