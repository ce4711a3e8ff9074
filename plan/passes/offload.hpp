// Offloading: what a device need not hold all the time is kept in host memory or on disk between
// its uses (Ren et al. 2021, ZeRO-Offload, arXiv 2101.06840; Rajbhandari et al. 2021,
// ZeRO-Infinity, arXiv 2104.07857). The passes run when all steps are bound: nothing before them
// knows of tiers. Copies are ops on streams of their own, ordered like all others by what they read
// and write.
#pragma once

#include <cstdint>
#include <string>

#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

// offload_states.cpp — a bucket's optimizer states, gradients or parameters live on another tier;
// its ops work on a copy in a slot of a ring, which is fetched before them, offload.prefetch
// buckets ahead, and written back where they have changed it.
void offload_states(ProgramBuilder& builder);

// offload_activations.cpp — the stash of a stage and micro-batch is moved out behind its forward
// action, and back offload.prefetch actions before the first one that reads it.
void offload_activations(ProgramBuilder& builder);

// copy_block.cpp — a block with the one copy of `bytes` that `kind` names, on the stream of its
// direction. `what` is moved: "optimizer".
Block copy_block(OpKind kind, Phase phase, const std::string& what, DType dtype,
                 std::int64_t bytes);

Tier tier_of(KeptOn kept);

}  // namespace orrery::plan
