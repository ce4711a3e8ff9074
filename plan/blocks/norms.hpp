// What layers and the ends of a model write alike: norms, and dropout. Internal to plan/blocks.
#pragma once

#include <string>
#include <vector>

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

// Places of Drop: attention's probabilities, and what the two residuals add; that of a parallel
// block, and positions, which no layer has beside them, have the first one's.
constexpr std::int64_t kAttentionDrop = 1, kFirstDrop = 2, kSecondDrop = 3;

// What the weight of a norm starts as: stored as the difference from 1 where there is an offset.
Start start_of_norm(const Model& model);

// A norm of rows [sharded tokens, any width], with its parameters: "norm1.weight".
TensorId norm(ForwardWriter& w, const Model& model, const std::string& name, TensorId x);

// What dropout leaves for backward: a mask of a byte per element that it writes, or the key of its
// counter-based random numbers, which it reads and backward reads again (Salmon et al. 2011).
void add_dropout(ForwardWriter& w, DropoutMasks masks, const std::string& mask,
                 const std::vector<std::int64_t>& dims, std::vector<TensorId>& reads,
                 std::vector<TensorId>& writes);

}  // namespace orrery::plan
