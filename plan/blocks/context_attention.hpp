// Attention over a sequence that the ranks of the context group share out. Three ways for queries
// to see the keys of other ranks:
//
//   ring        K and V travel round the group, a rank's queries meeting one rank's keys at a time;
//               what comes of them is merged by the log of the sums of exponentials (Liu, Zaharia,
//               Abbeel 2023, arXiv 2310.01889). While one block is attended the next is on its way.
//   all-gather  K and V of all ranks are gathered first (Llama team 2024, arXiv 2407.21783, 3.3.2)
//   all-to-all  each rank gives up its tokens of most heads for the whole sequence of a few (Jacobs
//               et al. 2023, DeepSpeed-Ulysses, arXiv 2309.14509)
//
// In the first two a rank holds two chunks of 2c, one from either end, so that causal work is the
// same on all (Llama team 2024; Brandon et al. 2023, arXiv 2311.09431, for stripes). Which, only
// who performs the op knows: the plan is the same on all.
#pragma once

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

// Makes an op one of the context group, on its stream.
inline void over_context(Op& op) {
    op.stream = Stream::context_comm;
    op.group = GroupKind::context;
}

// [tokens, q | k | v] → [tokens, heads]. They keep qkv, the result and its lse; K and V travel, or
// are gathered, again in backward.
// The label of what brings rows of this name in order: "qkv heads apart".
std::string rearranged(const std::string& name, Rearrangement form);

// Sinks, where the form has them, count with the first keys that a query meets.
TensorId ring_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv, TensorId sinks);
TensorId gathered_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv,
                            TensorId sinks);

// Elements of a packed row: of all, of its keys, of its values.
struct RowWidths {
    std::int64_t all = 0, keys = 0, values = 0;
};

// Of rows [samples · share of the sequence, heads]: the rows of the whole sequence with a share of
// the heads. And back.
TensorId heads_for_tokens(ForwardWriter& w, const std::string& name, TensorId rows,
                          const RowWidths& widths);
TensorId tokens_for_heads(ForwardWriter& w, const std::string& name, TensorId rows,
                          std::int64_t width);

}  // namespace orrery::plan
