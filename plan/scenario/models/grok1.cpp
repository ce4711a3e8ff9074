// Grok-1 (xAI 2024, github.com/xai-org/grok-1; the config.json of its conversions): mixtures of
// eight gated experts whose weights are those of a softmax over all, norms before and behind both
// branches, scores capped softly, a scaled look-up.
#include <fmt/format.h>

#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kGrokKeys = {"num_experts", "num_experts_per_tok", 8, 2};
constexpr const char* kLogitScale = "output_multiplier_scale";

// Logits times a number are those of a last norm whose weights are as many times larger.
void refuse_logit_scale(Reading& reading, Section& section) {
    double scale = 1;
    if (!section.number(kLogitScale, scale, kPositive) || scale == 1) return;
    refuse_value(reading, section, kLogitScale, "logits times a number",
                 "1: the last norm's weights, as many times smaller, give the same logits");
}

void read_grok1(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 8;
    usual.norm_epsilon = 1e-5;
    usual.tied_embeddings = true;
    read_llama_like(reading, section, usual, model);
    read_activation(section, model, "hidden_act", Words::gelu, "gelu_pytorch_tanh");
    model.mlp().activation = Activation::geglu;
    model.layer().norm_after = true;
    SoftmaxAttention& attention = model.attention();
    double scale = 1;
    if (section.number("attn_output_multiplier", scale, kPositive))
        attention.query_scalar = 1 / (scale * scale);
    else if (section.good("attn_output_multiplier"))
        attention.query_scalar = 1;
    attention.soft_cap = is_null(reading, "max_attn_value") ? 0 : 30;
    section.number("max_attn_value", attention.soft_cap, kPositive);
    section.number("embedding_multiplier_scale", model.embedding_scale, kPositive);
    refuse_logit_scale(reading, section);
    ExpertMlp experts;
    experts.expert = model.mlp();
    read_routing(reading, section, kGrokKeys, experts.routing);
    if (experts.routing.experts > 0) set_experts(model, experts);
}

void write_grok1(const Model& model, Json& out) {
    write_llama_like(model, out);
    const ExpertMlp* experts = model.layer().experts();
    write_routing(experts != nullptr ? experts->routing : Routing{0, 1}, kGrokKeys, out);
    out["embedding_multiplier_scale"] = plain(model.embedding_scale);
    const double cap = model.attention().soft_cap;
    out["max_attn_value"] = cap > 0 ? Json(plain(cap)) : Json(nullptr);
}

}  // namespace

Family grok1() {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"num_experts", "attn_output_multiplier", "max_attn_value",
                             "embedding_multiplier_scale", kLogitScale});
    return {"grok-1", std::move(keys), read_grok1, write_grok1};
}

}  // namespace orrery::plan
