// Gemma (Gemma Team 2024): a Llama with GeGLU, tied embeddings and heads of 256 whatever the hidden
// size. The look-up is scaled by the square root of the hidden size, norms multiply by 1 + w:
// factors within the kernels of embedding and norm, no ops of their own.
#include "plan/scenario/models/gemma_like.hpp"

namespace orrery::plan {
namespace {

void read_gemma(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 16;
    usual.head_dim = 256;
    usual.tied_embeddings = true;
    read_llama_like(reading, section, usual, model);
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    read_gemma_like(section, model);
}

void write_gemma(const Model& model, Json& out) {
    write_llama_like(model, out);
    write_activation(model, out, "hidden_activation");
    out["attention_bias"] = model.attention().qkv_bias;
}

}  // namespace

Family gemma() {
    return {"gemma", llama_like_keys(), read_gemma, write_gemma};
}

}  // namespace orrery::plan
