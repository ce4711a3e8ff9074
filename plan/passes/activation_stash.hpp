// Activation compression: what a layer keeps for backward waits in fewer bits than forward made it
// with, and is expanded before it is read (Chen et al. 2021, ActNN, arXiv 2104.14129; Liu et al.
// 2022, GACT, arXiv 2206.11357, which train with 2 to 4 bits). Forward itself is exact.
#pragma once

#include <vector>

#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

// Rounds the activations in a layer's stash to layout.activation_stash: bf16, or E4M3 with a scale
// for each 32 numbers in a row (OCP MXFP8, 8.25 bits a number). Statistics, masks and token numbers
// stay as they are. `readers` are the blocks that read the stash.
void compress_stash(const Scenario& scenario, const Dims& dims, Block& forward,
                    const std::vector<Block*>& readers);

// What a stage has received is needed no longer than its forward action where backward reads a
// rounded copy.
void release_received(ProgramBuilder& builder);

}  // namespace orrery::plan
