// What the configs of Llama and of the families after it share: RMSNorm, rotary positions, grouped
// queries, a gated MLP, the same spelling of sizes. Internal to plan/scenario/models.
#pragma once

#include "plan/scenario/models/keys.hpp"
#include "plan/scenario/models/rotary.hpp"

namespace orrery::plan {

// Hugging Face's defaults where a config is silent; 0 for one that follows from other keys.
struct LlamaLike {
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    bool tied_embeddings = false;
    double rope_theta = 10000;
    double norm_epsilon = 1e-6;
    RotaryKeys rotary = {};
};

// Sizes, heads, positions, norms, dropout; no biases. What a sliding window or a bias makes of it,
// and the activation, is the family's.
void read_llama_like(Reading& reading, Section& section, const LlamaLike& usual, Model& model);

// The key "attention_bias" of a family whose projection a norm follows: false.
void refuse_attention_bias(Reading& reading, Section& section);

// hidden_act of a SwiGLU.
void read_silu(Section& section, Model& model);

void write_llama_like(const Model& model, Json& out, const RotaryKeys& rotary = {});

// The keys that read_llama_like reads and that give the model its shape.
std::vector<const char*> llama_like_keys();

}  // namespace orrery::plan
