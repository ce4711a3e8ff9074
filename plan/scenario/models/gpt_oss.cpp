// gpt-oss (OpenAI 2025, arXiv 2508.10925): every head has a sink, every other layer sees a window,
// positions are stretched by YaRN, queries, keys, values and the projection have biases. The
// published models are mixtures of experts with biases and a clamped activation, which are refused;
// without experts the MLP is a SwiGLU.
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

void refuse_experts(Reading& reading, Section& section) {
    std::int64_t experts = 128;
    section.integer("num_local_experts", experts, {0, kLargestCount});
    if (!reading.good_at(section.pointer("num_local_experts")) || experts == 0) return;
    refuse_value(reading, section, "num_local_experts",
                 "experts with biases, and their clamped activation",
                 "\"num_local_experts\": 0 for a model whose MLPs are dense");
}

void read_gpt_oss(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 8;
    usual.head_dim = 64;
    usual.rope_theta = 150000;
    usual.norm_epsilon = 1e-5;
    usual.rotary.usual_scaling.kind = RopeScaling::Kind::yarn;
    usual.rotary.usual_scaling.factor = 32;
    usual.rotary.usual_scaling.original_max_positions = 4096;
    usual.rotary.usual_scaling.truncate = false;
    refuse_experts(reading, section);
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    model.attention().qkv_bias = true;
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    model.attention().sinks = true;
    std::int64_t window = is_null(reading, "sliding_window") ? 0 : 128;
    section.integer("sliding_window", window, {}, Presence::optional, "attention_window");
    add_sliding_kind(model, window);
    read_layer_types(reading, section, model, 2);
}

void write_gpt_oss(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["num_local_experts"] = 0;
    out["attention_bias"] = model.attention().qkv_bias;
    write_sliding_layers(model, out);
}

}  // namespace

Family gpt_oss() {
    return {"gpt_oss", llama_like_keys(), read_gpt_oss, write_gpt_oss};
}

}  // namespace orrery::plan
