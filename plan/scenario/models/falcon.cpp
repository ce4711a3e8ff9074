// Falcon (Almazrouei et al. 2023): attention and MLP in parallel, rotary positions or ALiBi, no
// biases unless asked for. The older decoder has one norm per layer and one head of keys and values
// (7B), the newer grouped queries (num_kv_heads) and a norm per branch (40B, 180B) unless
// num_ln_in_parallel_attn says one (Falcon2-11B).
#include "plan/scenario/models/keys.hpp"
#include "plan/scenario/models/rotary.hpp"

namespace orrery::plan {
namespace {

void read_attention(Reading& reading, Section& section, bool newer, Model& model) {
    bool multi_query = true;
    section.boolean("multi_query", multi_query);
    read_kv_heads(reading, section, model, "num_kv_heads", 0);
    if (multi_query && !newer) model.attention().kv_heads = 1;
    split_heads(reading, model);
    bool alibi = false;
    section.boolean("alibi", alibi);
    if (alibi) {
        model.learned_positions = false;
        model.attention().alibi = true;
        model.attention().scaled_alibi = true;
        pass_over_rotary(section);
    } else {
        read_rotary(reading, section, model);
    }
    std::int64_t positions = 0;  // no table, so no bound that a plan depends on
    section.integer("max_position_embeddings", positions);
}

void read_block(Section& section, bool newer, Model& model) {
    model.layer().parallel_block = true;
    section.boolean("parallel_attn", model.layer().parallel_block);
    model.layer().parallel_block = model.layer().parallel_block || newer;  // which knows no other
    std::int64_t norms = newer ? 2 : 1;
    section.integer("num_ln_in_parallel_attn", norms, {1, 2});
    model.layer().shared_norm = model.layer().parallel_block && (norms == 1 || !newer);
    model.attention().qkv_bias = false;
    section.boolean("bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.mlp().bias = model.attention().qkv_bias;
}

void read_falcon(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "num_hidden_layers",
               spelling(reading, section, {"n_embed", "hidden_size"}), "num_attention_heads");
    model.mlp().ffn_hidden = 4 * model.hidden;
    section.integer("ffn_hidden_size", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::optional,
                    "ffn_hidden");
    bool newer = false;
    section.boolean("new_decoder_architecture", newer);
    read_attention(reading, section, newer, model);
    read_block(section, newer, model);
    read_activation(section, model, "activation", Words::gelu_or_relu, "gelu");
    read_norm_epsilon(section, model, "layer_norm_epsilon", 1e-5);
    read_initializer(section, model);
    model.embedding_dropout = false;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    section.number("hidden_dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
}

void write_falcon(const Model& model, Json& out) {
    out.erase("n_embed");
    out["num_hidden_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["num_kv_heads"] = model.attention().kv_heads;
    out["ffn_hidden_size"] = model.mlp().ffn_hidden;
    out["parallel_attn"] = model.layer().parallel_block;
    out["bias"] = model.attention().qkv_bias;
    out["alibi"] = model.attention().alibi;
    if (model.attention().rotary_dim > 0) write_rotary(model, out);
    write_activation(model, out, "activation");
    out["layer_norm_epsilon"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["hidden_dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
}

}  // namespace

Family falcon() {
    return {"falcon",
            {"hidden_size", "num_hidden_layers", "num_attention_heads", "n_embed", "num_kv_heads",
             "ffn_hidden_size", "new_decoder_architecture", "parallel_attn", "alibi",
             "num_ln_in_parallel_attn", "layer_norm_epsilon", "rope_theta", "rope_scaling",
             "rope_parameters"},
            read_falcon,
            write_falcon};
}

}  // namespace orrery::plan
