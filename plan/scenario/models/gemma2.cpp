// Gemma 2 (Gemma Team 2024, arXiv 2408.00118): norms before and behind both branches, scores and
// logits capped softly, a sliding window in every other layer, from the first on.
#include "plan/scenario/models/gemma_like.hpp"
#include "plan/scenario/models/layer_types.hpp"

namespace orrery::plan {
namespace {

void read_gemma2(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 4;
    usual.head_dim = 256;
    usual.tied_embeddings = true;
    read_llama_like(reading, section, usual, model);
    read_gemma_like(section, model);
    read_gemma_norms(reading, section, model);
    read_soft_caps(reading, section, model, 50, 30);
    add_sliding_kind(model, read_window(reading, section));
    read_layer_types(reading, section, model, 2);
}

void write_gemma2(const Model& model, Json& out) {
    write_llama_like(model, out);
    write_activation(model, out, "hidden_activation");
    out["query_pre_attn_scalar"] = plain(model.attention().query_scalar);
    write_sliding_layers(model, out);
    write_soft_caps(model, out);
}

}  // namespace

Family gemma2() {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"query_pre_attn_scalar"});
    return {"gemma2", std::move(keys), read_gemma2, write_gemma2};
}

}  // namespace orrery::plan
