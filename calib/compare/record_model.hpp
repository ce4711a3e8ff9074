// The model of a published record: the facts that sizes and FLOPs follow from, and the "model" part
// of a scenario, in the keys of the family "megatron", which has a key for each of them.
#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

class RecordRules;

struct RecordModel {
    std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn_hidden = 0;
    std::int64_t vocabulary = 0, sequence = 0;
    bool gated_mlp = false;
};

// `stated` is the record's model with what rules add. Throws Skip.
RecordModel read_record_model(const nlohmann::json& stated, const nlohmann::json& vocabularies);

// Of a mixture of experts whose family a rule knows: "family" has its model_type, and what else its
// config.json would say.
nlohmann::json family_part(const nlohmann::json& stated, const RecordModel& model);

// A gated MLP stands for Llama's kind of decoder (RMSNorm, rotary positions, no biases, a head of
// its own), another for GPT's (LayerNorm, learned positions, biases, tied embeddings) in what the
// record does not say.
nlohmann::json model_part(const nlohmann::json& stated, const RecordModel& model);

// Latent attention by the widths of its latents and of the parts of its heads, as the model states
// them or else Megatron's arguments; nothing where the record states none. Throws Skip.
void add_latents(const nlohmann::json& stated, const nlohmann::json& arguments,
                 nlohmann::json& model_part);

}  // namespace orrery::compare
