// Nemotron (Parmar et al. 2024, arXiv 2402.16819): grouped-query attention with rotary positions on
// a part of each head, squared ReLU, LayerNorm whose weight counts from 1, no biases.
#include "plan/scenario/models/keys.hpp"
#include "plan/scenario/models/rotary.hpp"

namespace orrery::plan {
namespace {

constexpr RotaryKeys kNemotronRotary = {"rope_theta", "partial_rotary_factor", 0.5};

void read_nemotron(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "num_hidden_layers", "hidden_size", "num_attention_heads");
    section.integer("intermediate_size", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::required,
                    "ffn_hidden");
    read_kv_heads(reading, section, model, "num_key_value_heads", 0);
    read_head_dim(reading, section, model, 0);
    read_rotary(reading, section, model, kNemotronRotary);
    read_norm_epsilon(section, model, "norm_eps", 1e-5);
    model.norm_weight_offset = 1;
    read_initializer(section, model);
    std::int64_t positions = 0;  // no table, so no bound that a plan depends on
    section.integer("max_position_embeddings", positions);
    model.attention().qkv_bias = model.mlp().bias = false;
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    section.boolean("mlp_bias", model.mlp().bias);
    model.tied_embeddings = false;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    model.embedding_dropout = false;
    section.number("hidden_dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
    std::string word;
    section.word_of("hidden_act", word, {"relu2"}, "relu2");
    model.mlp().activation = Activation::squared_relu;
}

void write_nemotron(const Model& model, Json& out) {
    out["num_hidden_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["num_key_value_heads"] = model.attention().kv_heads;
    out["head_dim"] = model.attention().head_dim;
    out["intermediate_size"] = model.mlp().ffn_hidden;
    write_rotary(model, out, kNemotronRotary);
    out["norm_eps"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["attention_bias"] = model.attention().qkv_bias;
    out["mlp_bias"] = model.mlp().bias;
    out["hidden_dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
}

}  // namespace

Family nemotron() {
    return {"nemotron",
            {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
             "head_dim", "intermediate_size", "norm_eps", "partial_rotary_factor", "rope_theta"},
            read_nemotron,
            write_nemotron};
}

}  // namespace orrery::plan
