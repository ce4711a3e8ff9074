// Mixtures of experts in the spelling of Megatron-LM's arguments. Internal to plan/scenario/models.
#pragma once

#include "plan/scenario/models/experts.hpp"

namespace orrery::plan {

// After all else of the model has been read: experts over its MLP, in all layers or by
// moe_layer_freq.
void read_megatron_experts(Reading& reading, Section& section, Model& model);
void write_megatron_experts(const Model& model, Json& out);

}  // namespace orrery::plan
