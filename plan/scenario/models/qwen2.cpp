// Qwen2 and Qwen2.5 (Yang et al. 2024): a Llama with biases on queries, keys and values, none on
// the projection. Layers from max_window_layers on see a sliding window where use_sliding_window.
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void read_qwen2(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 32;
    read_llama_like(reading, section, usual, model);
    model.qkv_bias = true;
    read_silu(section, model);
    bool windowed = false;
    std::int64_t window = is_null(reading, "sliding_window") ? 0 : 4096;
    std::int64_t whole_layers = 28;
    section.boolean("use_sliding_window", windowed);
    section.integer("sliding_window", window, {}, Presence::optional, "attention_window");
    section.integer("max_window_layers", whole_layers, {0, kMostLayers}, Presence::optional,
                    "layers_without_window");
    if (!windowed || whole_layers >= model.layers) return;
    model.attention_window = window;
    model.layers_without_window = whole_layers;
}

void write_qwen2(const Model& model, Json& out) {
    write_llama_like(model, out);
    // A window that no layer sees may stay where it was written, null where it was null.
    out["use_sliding_window"] = model.attention_window > 0;
    if (model.attention_window > 0) out["sliding_window"] = model.attention_window;
}

}  // namespace

Family qwen2() {
    std::vector<const char*> keys = llama_like_keys();
    keys.push_back("use_sliding_window");
    return {"qwen2", std::move(keys), read_qwen2, write_qwen2};
}

}  // namespace orrery::plan
