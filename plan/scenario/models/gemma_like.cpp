#include "plan/scenario/models/gemma_like.hpp"

#include <cmath>

namespace orrery::plan {
namespace {

constexpr const char* kScoreCap = "attn_logit_softcapping";
constexpr const char* kLogitCap = "final_logit_softcapping";

Json cap_json(double cap) {
    return cap > 0 ? plain(cap) : Json(nullptr);
}

}  // namespace

void read_gemma_like(Section& section, Model& model) {
    // hidden_act says "gelu" in configs of models that were trained with the tanh form: Hugging
    // Face reads hidden_activation alone (transformers pull request 29402).
    read_activation(section, model, "hidden_act", Words::gelu, "gelu_pytorch_tanh");
    read_activation(section, model, "hidden_activation", Words::gelu, "gelu_pytorch_tanh");
    model.mlp().activation = Activation::geglu;
    model.norm_weight_offset = 1;
    model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

void read_gemma_norms(Reading& reading, Section& section, Model& model) {
    model.layer().norm_after = true;
    refuse_attention_bias(reading, section);
    model.attention().query_scalar = 256;
    section.number("query_pre_attn_scalar", model.attention().query_scalar, kPositive);
    bool both_ways = false;
    if (section.boolean("use_bidirectional_attention", both_ways) && both_ways)
        reading.report("S010", section.pointer("use_bidirectional_attention"),
                       "use_bidirectional_attention changes the computation in a way that is not "
                       "modelled");
}

void read_soft_caps(Reading& reading, Section& section, Model& model, double of_scores,
                    double of_logits) {
    model.attention().soft_cap = is_null(reading, kScoreCap) ? 0 : of_scores;
    section.number(kScoreCap, model.attention().soft_cap, kPositive);
    model.logit_soft_cap = is_null(reading, kLogitCap) ? 0 : of_logits;
    section.number(kLogitCap, model.logit_soft_cap, kPositive);
}

void write_soft_caps(const Model& model, Json& out) {
    out[kScoreCap] = cap_json(model.attention().soft_cap);
    out[kLogitCap] = cap_json(model.logit_soft_cap);
}

std::int64_t read_window(Reading& reading, Section& section) {
    std::int64_t window = is_null(reading, "sliding_window") ? 0 : 4096;
    section.integer("sliding_window", window, {}, Presence::optional, "attention_window");
    return window;
}

}  // namespace orrery::plan
