// Gemma 3 (Gemma Team 2025, arXiv 2503.19786), the text model: Gemma 2 without caps, with norms of
// queries and keys; five layers of six see a window, and turn heads by a base of their own.
#include "plan/scenario/models/gemma_like.hpp"
#include "plan/scenario/models/layer_types.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kLocalTheta = "rope_local_base_freq";

void read_gemma3(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 4;
    usual.head_dim = 256;
    usual.tied_embeddings = true;
    usual.rope_theta = 1e6;
    usual.rotary.by_layer_type = true;
    read_llama_like(reading, section, usual, model);
    read_gemma_like(section, model);
    read_gemma_norms(reading, section, model);
    read_soft_caps(reading, section, model, 0, 0);
    model.attention().qk_norm = QkNorm::heads;
    add_sliding_kind(model, read_window(reading, section));
    SoftmaxAttention& local = model.kinds[kSlidingKind].attention();
    local.rope_theta = 10000;
    local.rope_scaling = {};
    section.number(kLocalTheta, local.rope_theta, kPositive);
    read_rotary_of_type(reading, section, kSlidingWord, local);
    std::int64_t period = 6;
    section.integer("sliding_window_pattern", period);
    read_layer_types(reading, section, model, period);
}

void write_gemma3(const Model& model, Json& out) {
    write_llama_like(model, out);
    write_activation(model, out, "hidden_activation");
    out["query_pre_attn_scalar"] = plain(model.attention().query_scalar);
    out[kLocalTheta] = plain(model.kinds[kSlidingKind].attention().rope_theta);
    out.erase("sliding_window_pattern");  // layer_types says it
    write_sliding_layers(model, out);
    write_soft_caps(model, out);
}

}  // namespace

Family gemma3() {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"query_pre_attn_scalar", kLocalTheta, "sliding_window_pattern"});
    return {"gemma3_text", std::move(keys), read_gemma3, write_gemma3};
}

}  // namespace orrery::plan
