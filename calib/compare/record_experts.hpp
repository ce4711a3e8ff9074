// The experts of a published record: their "model" keys in the spelling of the family "megatron",
// and the degrees that they are spread over.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

// `stated` is the record's model with what rules add; nothing where it has no experts. Throws Skip.
void add_experts(const nlohmann::json& stated, nlohmann::json& model_part);

// `stated` is the record's layout with what rules add. Without etp it is tp, as in Megatron Core
// (megatron/training/arguments.py, --expert-tensor-parallel-size).
void add_expert_degrees(const nlohmann::json& stated, nlohmann::json& layout_part);

}  // namespace orrery::compare
