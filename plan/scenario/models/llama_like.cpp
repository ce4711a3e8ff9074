#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

// Of the MLPs that are not mixtures of experts; 0, and the key stays as it stands, where all are.
std::int64_t written_width(const Model& model) {
    for (const LayerSpec& kind : model.kinds)
        if (kind.experts() == nullptr) return kind.dense().ffn_hidden;
    return 0;
}

}  // namespace

void read_llama_like(Reading& reading, Section& section, const LlamaLike& usual, Model& model) {
    model.norm = Norm::rms_norm;
    model.attention().qkv_bias = model.attention().projection_bias = model.mlp().bias = false;
    model.embedding_dropout = false;
    model.tied_embeddings = usual.tied_embeddings;
    read_sizes(section, model, "num_hidden_layers", "hidden_size", "num_attention_heads");
    section.integer("intermediate_size", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::required,
                    "ffn_hidden");
    read_kv_heads(reading, section, model, "num_key_value_heads", usual.kv_heads);
    read_head_dim(reading, section, model, usual.head_dim);
    model.attention().rope_theta = usual.rope_theta;
    read_rotary(reading, section, model, usual.rotary);
    read_norm_epsilon(section, model, "rms_norm_eps", usual.norm_epsilon);
    read_initializer(section, model);
    std::int64_t positions = 0;  // rotary: no table, so no bound that a plan depends on
    section.integer("max_position_embeddings", positions);
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    section.number("attention_dropout", model.attention().dropout, kProbability);
}

void refuse_attention_bias(Reading& reading, Section& section) {
    bool biased = false;
    if (!section.boolean("attention_bias", biased) || !biased) return;
    reading
        .report("S010", section.pointer("attention_bias"),
                "attention_bias changes the computation in a way that is not modelled")
        .note = "not modelled: a bias between a projection and the norm behind it";
}

void read_silu(Section& section, Model& model) {
    std::string word;
    section.word_of("hidden_act", word, {"silu"}, "silu");
    model.mlp().activation = Activation::swiglu;
}

void write_llama_like(const Model& model, Json& out, const RotaryKeys& rotary) {
    out["num_hidden_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["num_key_value_heads"] = model.attention().kv_heads;
    out["head_dim"] = model.attention().head_dim;
    if (const std::int64_t width = written_width(model); width > 0)
        out["intermediate_size"] = width;
    write_rotary(model, out, rotary);
    out["rms_norm_eps"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["attention_dropout"] = plain(model.attention().dropout);
}

std::vector<const char*> llama_like_keys() {
    return {"hidden_size",  "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "head_dim",     "intermediate_size", "rms_norm_eps",        "rope_theta",
            "rope_scaling", "rope_parameters"};
}

}  // namespace orrery::plan
