// GPT-NeoX and Pythia (Black et al. 2022): attention and MLP in parallel behind a norm each, rotary
// positions on a part of each head, biases everywhere.
#include "plan/scenario/models/keys.hpp"
#include "plan/scenario/models/rotary.hpp"

namespace orrery::plan {
namespace {

constexpr RotaryKeys kPartialRotary = {"rotary_emb_base", "rotary_pct", 0.25};

void read_gpt_neox(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "num_hidden_layers", "hidden_size", "num_attention_heads");
    section.integer("intermediate_size", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::required,
                    "ffn_hidden");
    model.attention().kv_heads = model.attention().heads;
    split_heads(reading, model);
    read_rotary(reading, section, model, kPartialRotary);
    std::int64_t positions = 0;  // no table, so no bound that a plan depends on
    section.integer("max_position_embeddings", positions);
    model.layer().parallel_block = true;
    section.boolean("use_parallel_residual", model.layer().parallel_block);
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    model.tied_embeddings = false;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    read_activation(section, model, "hidden_act", Words::gelu_or_relu, "gelu");
    read_norm_epsilon(section, model, "layer_norm_eps", 1e-5);
    read_initializer(section, model);
    model.embedding_dropout = false;
    section.number("hidden_dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
}

void write_gpt_neox(const Model& model, Json& out) {
    out["num_hidden_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["intermediate_size"] = model.mlp().ffn_hidden;
    out["use_parallel_residual"] = model.layer().parallel_block;
    out["attention_bias"] = model.attention().qkv_bias;
    write_rotary(model, out, kPartialRotary);
    write_activation(model, out, "hidden_act");
    out["layer_norm_eps"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["hidden_dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
}

}  // namespace

Family gpt_neox() {
    return {"gpt_neox",
            {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "rotary_pct", "rotary_emb_base", "layer_norm_eps"},
            read_gpt_neox,
            write_gpt_neox};
}

}  // namespace orrery::plan
