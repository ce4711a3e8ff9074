// What the configs of Qwen2-MoE and Qwen3-MoE share beyond those of Qwen2. Internal to
// plan/scenario/models.
#pragma once

#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {

// The experts, over the dense MLP and the windows that have been read. `experts` has the default of
// each one's width.
void read_qwen_experts(Reading& reading, Section& section, const ExpertKeys& keys,
                       ExpertMlp experts, Model& model);
void write_qwen_experts(const Model& model, const ExpertKeys& keys, Json& out);

std::vector<const char*> qwen_expert_keys();

}  // namespace orrery::plan
