// A decoder as Megatron-LM's arguments put it together: norm, positions, activation, biases and
// tying each by a key of its own, in the spelling of NVIDIA/Megatron-LM,
// megatron/training/arguments.py (with underscores, and with its defaults). For models that are no
// published family.
#include "plan/scenario/models/megatron_experts.hpp"
#include "plan/scenario/models/rotary.hpp"

namespace orrery::plan {
namespace {

constexpr char kMtpNumLayers[] = "mtp_num_layers";

constexpr RotaryKeys kRotaryFlags = {"rotary_base", "rotary_percent", 1};

// Megatron's: 4·hidden, and with SwiGLU two thirds of that in whole multiples of 64.
std::int64_t usual_ffn(const Model& model) {
    if (model.mlp().activation != Activation::swiglu) return 4 * model.hidden;
    return 4 * model.hidden * 2 / 3 / 64 * 64;
}

void read_shape(Reading& reading, Section& section, Model& model) {
    read_sizes(section, model, "num_layers", "hidden_size", "num_attention_heads");
    read_kv_heads(reading, section, model, "num_query_groups", 0);
    if (!section.has("kv_channels")) split_heads(reading, model);
    section.integer("kv_channels", model.attention().head_dim, {1, kMostHidden}, Presence::optional,
                    "head_dim");
    bool swiglu = false;
    bool squared_relu = false;
    section.boolean("swiglu", swiglu);
    section.boolean("squared_relu", squared_relu);
    if (swiglu && squared_relu)
        reading.report("S010", section.pointer("squared_relu"),
                       "swiglu and squared_relu are two activations, and a layer has one");
    if (squared_relu) model.mlp().activation = Activation::squared_relu;
    if (swiglu) model.mlp().activation = Activation::swiglu;
    model.mlp().ffn_hidden = usual_ffn(model);
    section.integer("ffn_hidden_size", model.mlp().ffn_hidden, {1, kMostFfn}, Presence::optional,
                    "ffn_hidden");
}

void read_positions(Reading& reading, Section& section, Model& model) {
    std::string positions = "learned_absolute";
    section.word_of("position_embedding_type", positions, {"learned_absolute", "rope", "alibi"},
                    "learned_absolute");
    const bool learned = positions == "learned_absolute";
    section.integer("max_position_embeddings", model.max_positions, {},
                    learned ? Presence::required : Presence::optional, "max_positions");
    if (!learned) model.max_positions = 0;  // no table, so no bound that a plan depends on
    if (positions == "rope") return read_rotary(reading, section, model, kRotaryFlags);
    pass_over_rotary(section);
    if (learned) return;
    model.learned_positions = false;
    model.attention().alibi = true;
}

// Of each head by itself, by the norm of the layers.
void read_query_norm(Reading& reading, Section& section, Model& model) {
    bool norm = false;
    if (!section.boolean("qk_layernorm", norm) || !norm) return;
    model.attention().qk_norm = QkNorm::heads;
    if (!model.layer_norm()) return;
    refuse_value(reading, section, "qk_layernorm",
                 "queries and keys that are normed by their mean, too",
                 "\"normalization\": \"RMSNorm\"");
}

// What --multi-latent-attention makes of attention: its norms of latents are those of
// --qk-layernorm.
void read_latents(Reading& reading, Section& section, Model& model) {
    bool latent = false;
    if (!section.boolean("multi_latent_attention", latent) || !latent) return;
    SoftmaxAttention& attention = model.attention();
    std::int64_t plain = 128, turned = 64;
    attention.value_dim = 128;
    attention.latents.kv_rank = 32;
    section.integer("q_lora_rank", attention.latents.q_rank, {1, kMostHidden});
    section.integer("kv_lora_rank", attention.latents.kv_rank, {1, kMostHidden});
    section.integer("qk_head_dim", plain, {1, kMostHidden});
    section.integer("qk_pos_emb_head_dim", turned, {2, kMostHidden});
    section.integer("v_head_dim", attention.value_dim, {1, kMostHidden});
    const auto require = [&](const char* key, bool is_so, const char* what, const char* help) {
        if (is_so || !section.good(key)) return;
        reading.report("S010", section.pointer(key), what).help.emplace_back(help);
    };
    require("position_embedding_type", !model.learned_positions && !attention.alibi,
            "latent attention turns a part of its heads by their positions",
            "\"position_embedding_type\": \"rope\"");
    require("qk_layernorm", attention.qk_norm == QkNorm::heads,
            "latents that are not normed are not modelled", "\"qk_layernorm\": true");
    require("add_bias_linear", !attention.projection_bias,
            "linears of latent attention have no biases here", "\"add_bias_linear\": false");
    require("num_query_groups", attention.kv_heads == attention.heads,
            "latents make keys of as many heads as queries", "leave num_query_groups out");
    require("qk_pos_emb_head_dim", turned % 2 == 0,
            "rotary positions need an even part of each head", "an even qk_pos_emb_head_dim");
    attention.qk_norm = QkNorm::none;
    attention.rotary_dim = turned;
    attention.head_dim = plain + turned;
}

void read_megatron(Reading& reading, Section& section, Model& model) {
    read_shape(reading, section, model);
    read_positions(reading, section, model);
    std::string norm;
    section.word_of("normalization", norm, {"LayerNorm", "RMSNorm"}, "LayerNorm");
    model.norm = norm == "RMSNorm" ? Norm::rms_norm : Norm::layer_norm;
    bool offset = false;
    section.boolean("apply_layernorm_1p", offset);
    model.norm_weight_offset = offset ? 1 : 0;
    read_norm_epsilon(section, model, "norm_epsilon", 1e-5);
    bool biases = true;
    section.boolean("add_bias_linear", biases);
    model.attention().qkv_bias = model.attention().projection_bias = model.mlp().bias = biases;
    section.boolean("add_qkv_bias", model.attention().qkv_bias);
    bool untied = false;
    section.boolean("untie_embeddings_and_output_weights", untied);
    model.tied_embeddings = !untied;
    read_initializer(section, model, "init_method_std");
    model.hidden_dropout = model.attention().dropout = 0.1;
    section.number("hidden_dropout", model.hidden_dropout, kProbability);
    section.number("attention_dropout", model.attention().dropout, kProbability);
    read_query_norm(reading, section, model);
    read_latents(reading, section, model);
    read_megatron_experts(reading, section, model);
    read_mtp_layers(reading, section, model, kMtpNumLayers);
}

void write_latents(const SoftmaxAttention& attention, Json& out) {
    const Latents& latents = attention.latents;
    if (!latents.on()) return;
    out["multi_latent_attention"] = out["qk_layernorm"] = true;
    if (latents.q_rank > 0) out["q_lora_rank"] = latents.q_rank;
    out["kv_lora_rank"] = latents.kv_rank;
    out["qk_head_dim"] = attention.head_dim - attention.rotary_dim;
    out["qk_pos_emb_head_dim"] = attention.rotary_dim;
    out["v_head_dim"] = attention.values();
}

void write_megatron(const Model& model, Json& out) {
    out.erase("tie_word_embeddings");  // untie_… says it
    out["num_layers"] = model.layers;
    out["hidden_size"] = model.hidden;
    out["num_attention_heads"] = model.attention().heads;
    out["num_query_groups"] = model.attention().kv_heads;
    out["kv_channels"] = model.attention().head_dim;
    const LayerSpec* dense = nullptr;
    for (const LayerSpec& kind : model.kinds)
        if (kind.experts() == nullptr) dense = &kind;
    const DenseMlp& mlp = dense != nullptr ? dense->dense() : model.experts()->expert;
    if (dense != nullptr) out["ffn_hidden_size"] = mlp.ffn_hidden;
    out["swiglu"] = mlp.activation == Activation::swiglu;
    out["squared_relu"] = mlp.activation == Activation::squared_relu;
    const bool alibi = model.attention().alibi;
    out["position_embedding_type"] = alibi                     ? "alibi"
                                     : model.learned_positions ? "learned_absolute"
                                                               : "rope";
    if (!alibi && !model.learned_positions) write_rotary(model, out, kRotaryFlags);
    if (model.learned_positions) out["max_position_embeddings"] = model.max_positions;
    out["normalization"] = model.layer_norm() ? "LayerNorm" : "RMSNorm";
    out["apply_layernorm_1p"] = model.norm_weight_offset == 1;
    out["norm_epsilon"] = plain(model.norm_epsilon);
    out["add_bias_linear"] = mlp.bias;
    out["add_qkv_bias"] = model.attention().qkv_bias;
    out["untie_embeddings_and_output_weights"] = !model.tied_embeddings;
    out["init_method_std"] = plain(model.initializer_range);
    out["hidden_dropout"] = plain(model.hidden_dropout);
    out["attention_dropout"] = plain(model.attention().dropout);
    if (model.attention().qk_norm == QkNorm::heads) out["qk_layernorm"] = true;
    write_latents(model.attention(), out);
    write_megatron_experts(model, out);
    if (model.mtp_layers > 0) out[kMtpNumLayers] = model.mtp_layers;
}

}  // namespace

Family megatron() {
    return {"megatron",
            {"num_query_groups", "kv_channels", "ffn_hidden_size", "swiglu", "squared_relu",
             "position_embedding_type", "rotary_percent", "rotary_base", "normalization",
             "apply_layernorm_1p", "add_bias_linear", "add_qkv_bias",
             "untie_embeddings_and_output_weights", "moe_ffn_hidden_size", "moe_router_topk",
             "moe_layer_freq", "multi_latent_attention"},
            read_megatron,
            write_megatron};
}

}  // namespace orrery::plan
