// Llama (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU, no biases unless asked for.
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_llama(Reading& reading, Section& section, Model& model) {
    read_llama_like(reading, section, {}, model);
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    section.boolean("mlp_bias", model.mlp().bias);
    read_silu(section, model);
}

void write_llama(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["attention_bias"] = model.attention().qkv_bias;
    out["mlp_bias"] = model.mlp().bias;
}

}  // namespace

Family llama() {
    return {"llama", llama_like_keys(), read_llama, write_llama};
}

}  // namespace orrery::plan
