// Backward blocks are derived from forward blocks, op kind by op kind, walking the ops in reverse.
// What backward reads of the forward pass becomes stash of the forward block, unless it is marked
// to be made again: then its producers are emitted again, just before their first use (selective
// recomputation; the re-gathered input of a sequence-parallel linear, Korthikanti 2022 §4.2.2).
#pragma once

#include <string>
#include <string_view>

#include "plan/blocks/forward_block.hpp"
#include "plan/ir/block.hpp"

namespace orrery::plan {

struct BlockPair {
    Block forward;
    Block backward;
    std::int64_t parameters = 0;  // elements that this rank holds of the block's parameters …
    std::int64_t eight_bit = 0;   // … of which so many are held in eight bits, and of which
    std::int64_t replicated = 0;  // every rank of the tensor group holds the same, and of these
    std::int64_t partial = 0;     // so many of whose gradients each rank has a part
    std::int64_t frozen = 0;      // elements of those that are never stepped, beside them …
    std::int64_t experts = 0;     // elements of experts' parameters, beside them, too …
    std::int64_t eight_bit_experts = 0;  // … of which so many are held in eight bits
    // Of the frozen ones: those that every rank of the tensor group holds, and experts'.
    std::int64_t frozen_replicated = 0, frozen_experts = 0;
};

// Of a block's pair and what is derived of both: "layer.forward", "backward" → "layer.backward".
std::string block_name(const std::string& forward, std::string_view form);

// recompute_all: the backward block begins with the whole forward pass again, its collectives
// included, and the forward block keeps nothing but its input (Chen 2016; "full" in Megatron-LM).
// recompute_needed: the same, but not beyond the last op of which backward reads a result (early
// stop of PyTorch's checkpoint without reentrant autograd, torch/utils/checkpoint.py).
// gradient_dtype: of the accumulators.
enum class Again { nothing, recompute_needed, recompute_all };
BlockPair derive_backward(ForwardBlock forward, DType gradient_dtype, Again again);

}  // namespace orrery::plan
