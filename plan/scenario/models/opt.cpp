// OPT (Zhang et al. 2022): GPT-2's shape with ReLU, no dropout after the embedding, and a table of
// positions with two rows before the first position.
#include <fmt/format.h>

#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kPositionOffset = 2;

void refuse_projection(Reading& reading, Section& section, const Model& model) {
    std::int64_t width = model.hidden;
    section.integer("word_embed_proj_dim", width, {1, kMostHidden});
    if (!reading.good({"model.word_embed_proj_dim", "model.hidden"}) || width == model.hidden)
        return;
    Diagnostic& fault = reading.report_field(
        "S010", "model.word_embed_proj_dim",
        "word_embed_proj_dim changes the computation in a way that is not modelled");
    fault.arithmetic =
        fmt::format("word_embed_proj_dim = {}, hidden_size = {}", width, model.hidden);
    fault.note = "not modelled: embeddings that are projected to the hidden size";
}

void read_opt(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "num_hidden_layers", "hidden_size", "num_attention_heads");
    section.integer("ffn_dim", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::required,
                    "ffn_hidden");
    section.integer("max_position_embeddings", model.max_positions, {}, Presence::required,
                    "max_positions");
    model.position_offset = kPositionOffset;
    model.attention().kv_heads = model.attention().heads;
    split_heads(reading, model);
    refuse_projection(reading, section, model);
    section.boolean("enable_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.mlp().bias = model.attention().qkv_bias;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    read_activation(section, model, "activation_function", Words::gelu_or_relu, "relu");
    model.norm_epsilon = 1e-5;  // PyTorch's default: OPT has no key for it
    read_initializer(section, model, "init_std");
    model.embedding_dropout = false;
    model.hidden_dropout = 0.1;  // Hugging Face's default
    section.number("dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
}

void write_opt(const Model& model, Json& out) {
    out["num_hidden_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["ffn_dim"] = model.mlp().ffn_hidden;
    out["max_position_embeddings"] = model.max_positions;
    write_activation(model, out, "activation_function");
    out["init_std"] = plain(model.initializer_range);
    out["enable_bias"] = model.attention().qkv_bias;
    out["dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
}

}  // namespace

Family opt() {
    return {"opt",
            {"hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim",
             "word_embed_proj_dim"},
            read_opt,
            write_opt};
}

}  // namespace orrery::plan
