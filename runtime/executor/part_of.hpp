// Which part of every sequence a rank of a plan holds.
#pragma once

#include "plan/ir/plan.hpp"
#include "runtime/kernels/sequence_part.hpp"

namespace orrery::runtime {

// `context`: the rank's place in its context group.
inline SequencePart part_of(const plan::Mesh& mesh, const plan::TokenLayout& tokens,
                            std::int64_t context) {
    return {mesh.context, context, tokens.zigzag};
}

}  // namespace orrery::runtime
