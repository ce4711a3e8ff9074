// What the configs of mixtures of experts say, each in its own spelling: how many experts there
// are, how many a token goes through, how wide each is, and which layers have none. Internal to
// plan/scenario/models.
#pragma once

#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {

// A family's spelling of the sizes, with Hugging Face's defaults.
struct ExpertKeys {
    const char* experts = "num_experts";
    const char* chosen = "num_experts_per_tok";
    std::int64_t usual_experts = 0, usual_chosen = 0;
};

// How many experts there are (0: none, where the family may have that) and how many of them a token
// goes through, reported where these are more.
void read_routing(Reading& reading, Section& section, const ExpertKeys& keys, Routing& routing);
void write_routing(const Routing& routing, const ExpertKeys& keys, Json& out);

// The MLP of every layer, as read_llama_like has left it, becomes a mixture of experts, except in
// layers of which `dense` is true (empty: in none). Kinds of layers, where there are several then,
// have names.
void set_experts(Model& model, const ExpertMlp& experts, const std::vector<bool>& dense = {});

// Qwen's: layers of mlp_only_layers are dense, and all but every decoder_sparse_step-th one.
std::vector<bool> read_dense_layers(Reading& reading, Section& section, const Model& model);
void write_dense_layers(const Model& model, Json& out);

}  // namespace orrery::plan
