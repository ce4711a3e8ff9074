// Parts of a layer's forward that more than one kind of MLP is made of.
#pragma once

#include <string>

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

const char* name_of(Activation activation);
ActivationFunction function_of(const DenseMlp& mlp);

// All of a layer, from its input [sharded tokens, hidden] to what the next one reads.
TensorId layer_of(ForwardWriter& w, const Scenario& scenario, const LayerSpec& layer, TensorId x);

// An MLP of a normed input, up to what its second linear reads; its tensors' and parameters' names
// begin with `prefix`.
TensorId mlp_branch(ForwardWriter& w, const Scenario& scenario, const DenseMlp& mlp,
                    const std::string& prefix, TensorId normed);

// Packed rows of queries, keys and values, turned by their positions, of a normed input by way of
// latents.
TensorId heads_of_latents(ForwardWriter& w, const Scenario& scenario, const SoftmaxAttention& spec,
                          TensorId normed);

// All of a layer of experts between its norm and its residual: [sharded tokens, hidden], of which
// nothing is left to reduce.
TensorId expert_branch(ForwardWriter& w, const Scenario& scenario, const ExpertMlp& mlp,
                       TensorId normed);

}  // namespace orrery::plan
