// gpt-oss (OpenAI 2025, arXiv 2508.10925): every head has a sink, every other layer sees a window,
// positions are stretched by YaRN, queries, keys, values and the projection have biases. MLPs are
// mixtures of experts with biases and a clamped activation (Hugging Face's modeling_gpt_oss.py);
// without experts they have that activation, and no biases.
#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kGptOssKeys = {"num_local_experts", "num_experts_per_tok", 128, 4};

void read_gpt_oss_experts(Reading& reading, Section& section, Model& model) {
    ExpertMlp experts;
    experts.expert = model.mlp();
    experts.expert.bias = experts.router_bias = true;
    experts.routing.normalizes = true;
    read_routing(reading, section, kGptOssKeys, experts.routing);
    if (reading.good({"model.layers"}) && experts.routing.experts > 0) set_experts(model, experts);
}

void read_clamped(Reading& reading, Section& section, DenseMlp& mlp) {
    mlp.activation = Activation::clamped_swiglu;
    mlp.limit = 7;
    section.number("swiglu_limit", mlp.limit, kPositive);
    double steepness = 1.702;
    section.number("swiglu_alpha", steepness, kPositive);
    if (steepness != 1.702)
        refuse_value(reading, section, "swiglu_alpha", "another steepness of the activation",
                     "\"swiglu_alpha\": 1.702");
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
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    read_clamped(reading, section, model.mlp());
    model.attention().qkv_bias = true;
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    model.attention().sinks = true;
    std::int64_t window = is_null(reading, "sliding_window") ? 0 : 128;
    section.integer("sliding_window", window, {}, Presence::optional, "attention_window");
    add_sliding_kind(model, window);
    read_layer_types(reading, section, model, 2);
    read_gpt_oss_experts(reading, section, model);
    read_stored_type(reading, section, "mxfp4");
}

void write_gpt_oss(const Model& model, Json& out) {
    write_llama_like(model, out);
    const ExpertMlp* experts = model.experts();
    write_routing(experts != nullptr ? experts->routing : Routing{0, 1}, kGptOssKeys, out);
    if (experts != nullptr) out["intermediate_size"] = experts->expert.ffn_hidden;
    out["swiglu_limit"] = plain(experts != nullptr ? experts->expert.limit : model.mlp().limit);
    out["attention_bias"] = model.attention().qkv_bias;
    write_sliding_layers(model, out);
}

}  // namespace

Family gpt_oss() {
    return {"gpt_oss", llama_like_keys(), read_gpt_oss, write_gpt_oss};
}

}  // namespace orrery::plan
