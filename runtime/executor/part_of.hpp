// Which part of every sequence a rank of a layout holds.
#pragma once

#include "plan/scenario/scenario.hpp"
#include "runtime/kernels/sequence_part.hpp"

namespace orrery::runtime {

// `context`: the rank's place in its context group.
inline SequencePart part_of(const plan::Layout& layout, std::int64_t context) {
    return {layout.context_parallel, context, layout.balances_context()};
}

}  // namespace orrery::runtime
