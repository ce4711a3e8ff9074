// BLOOM (BigScience 2022): GPT-2's shape with ALiBi in place of positions and a LayerNorm after the
// embedding.
#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {
namespace {

void read_bloom(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, spelling(reading, section, {"n_layer", "num_hidden_layers"}),
               spelling(reading, section, {"n_embed", "hidden_size"}),
               spelling(reading, section, {"n_head", "num_attention_heads"}));
    model.mlp().ffn_hidden = 4 * model.hidden;
    model.attention().kv_heads = model.attention().heads;
    split_heads(reading, model);
    model.learned_positions = false;
    model.attention().alibi = true;
    model.embedding_norm = true;
    model.mlp().gelu = Gelu::tanh;  // of its own, whatever the config says
    read_norm_epsilon(section, model, "layer_norm_epsilon", 1e-5);
    read_initializer(section, model);
    model.embedding_dropout = false;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    section.number("hidden_dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
}

void write_bloom(const Model& model, Json& out) {
    for (const char* alias : {"num_hidden_layers", "n_embed", "num_attention_heads"})
        out.erase(alias);
    out["n_layer"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["n_head"] = model.attention().heads;
    out["layer_norm_epsilon"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["hidden_dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
}

}  // namespace

Family bloom() {
    return {"bloom",
            {"n_layer", "num_hidden_layers", "n_embed", "hidden_size", "n_head",
             "num_attention_heads", "layer_norm_epsilon"},
            read_bloom,
            write_bloom};
}

}  // namespace orrery::plan
