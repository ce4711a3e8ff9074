// Backward of attention over keys that other ranks hold: not one op for one op, since K and V
// travel, or are gathered, again, and their gradients go home.
#pragma once

#include "plan/blocks/backward_writer.hpp"

namespace orrery::plan {

// Of the attention_block that wrote the block's context; what led to it is derived with it.
void derive_ring_attention(BackwardWriter& w, const Op& attention);
void derive_gathered_attention(BackwardWriter& w, const Op& attention);

// Whether this rank's keys, or all that are gathered, are what the op attends to.
bool attends_to_gathered(const Op& attention);

}  // namespace orrery::plan
