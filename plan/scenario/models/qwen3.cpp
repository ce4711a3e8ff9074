// Qwen3, the dense models (Yang et al. 2025, arXiv 2505.09388): Qwen2 with norms of each head's
// queries and keys in place of biases, and heads of 128 whatever the hidden size.
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_qwen3(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 32;
    usual.head_dim = 128;
    read_llama_like(reading, section, usual, model);
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    model.attention().qk_norm = QkNorm::heads;
    read_silu(section, model);
    read_qwen_windows(reading, section, model);
}

void write_qwen3(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["attention_bias"] = model.attention().qkv_bias;
    write_qwen_windows(model, out);
}

}  // namespace

Family qwen3() {
    std::vector<const char*> keys = llama_like_keys();
    keys.push_back("use_sliding_window");
    return {"qwen3", std::move(keys), read_qwen3, write_qwen3};
}

}  // namespace orrery::plan
