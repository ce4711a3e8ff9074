// What multi-token prediction and the ends of a model share. Internal to plan/blocks.
#pragma once

#include <cstdint>
#include <utility>

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

// What the embedding has for the tokens that come so many later: [sharded tokens, hidden].
TensorId embedded(ForwardWriter& w, const Scenario& scenario, std::int64_t ahead);

// The two hidden states of rows of twice the width: the model's own, and what predicts further.
std::pair<TensorId, TensorId> states_of(ForwardWriter& w, TensorId both);

}  // namespace orrery::plan
