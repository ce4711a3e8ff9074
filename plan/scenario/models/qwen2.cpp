// Qwen2 and Qwen2.5 (Yang et al. 2024): a Llama with biases on queries, keys and values, none on
// the projection. Layers from max_window_layers on see a sliding window where use_sliding_window.
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_qwen2(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 32;
    read_llama_like(reading, section, usual, model);
    model.attention().qkv_bias = true;
    read_silu(section, model);
    read_qwen_windows(reading, section, model);
}

void write_qwen2(const Model& model, Json& out) {
    write_llama_like(model, out);
    write_qwen_windows(model, out);
}

}  // namespace

Family qwen2() {
    std::vector<const char*> keys = llama_like_keys();
    keys.push_back("use_sliding_window");
    return {"qwen2", std::move(keys), read_qwen2, write_qwen2};
}

}  // namespace orrery::plan
