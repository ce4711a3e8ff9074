// GPT-2 (Radford et al. 2019): LayerNorm, learned positions, biases everywhere, GELU.
#include <fmt/format.h>

#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {
namespace {

void read_dropout(Reading& reading, Section& section, Model& model) {
    double embedding = 0.1;  // Hugging Face's defaults
    model.hidden_dropout = 0.1;
    model.attention().dropout = 0.1;
    section.number("resid_pdrop", model.hidden_dropout, kProbability);
    section.number("embd_pdrop", embedding, kProbability);
    section.number("attn_pdrop", model.attention().dropout, kProbability);
    if (!reading.good({"model.resid_pdrop", "model.embd_pdrop"}) ||
        embedding == model.hidden_dropout)
        return;
    Diagnostic& fault = reading.report_field("S010", "model.embd_pdrop",
                                             "embd_pdrop and resid_pdrop must be equal");
    fault.arithmetic =
        fmt::format("embd_pdrop = {}, resid_pdrop = {}", embedding, model.hidden_dropout);
    fault.help.push_back("training.dropout sets every dropout of the model at once");
}

void read_gpt2(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "n_layer", "n_embd", "n_head");
    const bool older = section.has("n_ctx") && !section.has("n_positions");
    section.known(older ? "n_positions" : "n_ctx");
    section.integer(older ? "n_ctx" : "n_positions", model.max_positions, {}, Presence::required,
                    "max_positions");
    model.mlp().ffn_hidden = 4 * model.hidden;
    section.integer("n_inner", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::optional,
                    "ffn_hidden");
    model.attention().kv_heads = model.attention().heads;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    read_activation(section, model, "activation_function", Words::gelu, "gelu_new");
    read_norm_epsilon(section, model, "layer_norm_epsilon", 1e-5);
    read_initializer(section, model);
    read_dropout(reading, section, model);
    split_heads(reading, model);
}

void write_gpt2(const Model& model, Json& out) {
    out.erase("n_ctx");
    out["n_layer"] = model.layers;
    out["n_embd"] = model.hidden;
    out["n_head"] = model.attention().heads;
    out["n_inner"] = model.mlp().ffn_hidden;
    out["n_positions"] = model.max_positions;
    write_activation(model, out, "activation_function");
    out["layer_norm_epsilon"] = plain(model.norm_epsilon);
    out["initializer_range"] = plain(model.initializer_range);
    out["resid_pdrop"] = plain(model.hidden_dropout);
    out["embd_pdrop"] = plain(model.hidden_dropout);
    out["attn_pdrop"] = plain(model.attention().dropout);
}

}  // namespace

Family gpt2() {
    return {"gpt2",
            {"n_embd", "n_layer", "n_head", "n_inner", "n_positions", "layer_norm_epsilon"},
            read_gpt2,
            write_gpt2};
}

}  // namespace orrery::plan
