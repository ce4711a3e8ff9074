#include "calib/compare/record_model.hpp"

#include <fmt/format.h>

#include <cmath>

#include "calib/compare/record_rules.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

// A number, or a word for one ("128k"; "GPT-2 tokenizer").
std::int64_t vocabulary_of(const json& m, const json& vocabularies) {
    const json& value = states(m, "vocab") ? m.at("vocab") : json();
    if (!value.is_string()) return whole(m, "vocab", "model");
    const auto known = vocabularies.find(value.get<std::string>());
    if (known == vocabularies.end())
        throw Skip(fmt::format("no rule knows how many tokens \"{}\" has", shown(value)));
    return known->get<std::int64_t>();
}

std::int64_t ffn_of(const json& m, std::int64_t hidden) {
    if (states(m, "ffn_hidden") || !states(m, "mlp_ratio")) {
        // No layer needs it where all have experts of a width of their own.
        const bool of_experts = states(m, "moe_ffn_hidden") && !states(m, "first_dense_layers");
        return whole(m, of_experts && !states(m, "ffn_hidden") ? "moe_ffn_hidden" : "ffn_hidden",
                     "model");
    }
    const json& ratio = m.at("mlp_ratio");
    if (!ratio.is_number_float() || ratio.get<double>() <= 0 || ratio.get<double>() > 64)
        return hidden * whole(m, "mlp_ratio", "model");
    const double width = static_cast<double>(hidden) * ratio.get<double>();
    if (states(m, "ffn_whole_multiples_of")) {
        const std::int64_t multiple = whole(m, "ffn_whole_multiples_of", "model");
        return static_cast<std::int64_t>(width / static_cast<double>(multiple)) * multiple;
    }
    // A part of a width is filled to a multiple of 256 (Llama's reference code, multiple_of).
    const auto nearest = static_cast<std::int64_t>(std::llround(width));
    if (std::fabs(width - static_cast<double>(nearest)) < 1e-6) return nearest;
    return static_cast<std::int64_t>(std::ceil(width / 256)) * 256;
}

bool flag(const json& m, const char* key, bool otherwise) {
    return states(m, key) ? m.at(key).get<bool>() : otherwise;
}

bool untied(const json& m, const RecordModel& model) {
    if (states(m, "tied_embeddings")) return !m.at("tied_embeddings").get<bool>();
    return flag(m, "untied_embeddings", model.gated_mlp);
}

}  // namespace

RecordModel read_record_model(const json& m, const json& vocabularies) {
    RecordModel model;
    model.hidden = whole(m, "hidden", "model");
    model.layers = whole(m, "layers", "model");
    const bool by_width = !states(m, "heads") && states(m, "head_dim");
    model.heads =
        by_width ? model.hidden / whole(m, "head_dim", "model") : whole(m, "heads", "model");
    model.kv_heads = whole_or(m, "kv_heads", "model", model.heads);
    model.head_dim = whole_or(m, "head_dim", "model",
                              whole_or(m, "kv_channels", "model", model.hidden / model.heads));
    model.ffn_hidden = ffn_of(m, model.hidden);
    model.vocabulary = vocabulary_of(m, vocabularies);
    model.sequence = whole(m, "seq_len", "model");
    model.gated_mlp = flag(m, "gated_mlp", false);
    return model;
}

json model_part(const json& m, const RecordModel& model) {
    const bool gated = model.gated_mlp;
    const std::string positions = m.value("position", gated ? "rope" : "learned");
    static const std::map<std::string, std::string> kPositions = {
        {"rope", "rope"}, {"learned", "learned_absolute"}, {"alibi", "alibi"}};
    const auto known = kPositions.find(positions);
    if (known == kPositions.end())
        throw Skip(fmt::format("positions of kind {} are not modelled", positions));
    json part = {{"model_type", "megatron"},
                 {"hidden_size", model.hidden},
                 {"num_layers", model.layers},
                 {"num_attention_heads", model.heads},
                 {"num_query_groups", model.kv_heads},
                 {"kv_channels", model.head_dim},
                 {"ffn_hidden_size", model.ffn_hidden},
                 {"vocab_size", model.vocabulary},
                 {"max_position_embeddings", model.sequence},
                 {"position_embedding_type", known->second},
                 {"swiglu", gated},
                 {"squared_relu", flag(m, "squared_relu", false)},
                 {"normalization", m.value("normalization", gated ? "RMSNorm" : "LayerNorm")},
                 {"add_bias_linear", flag(m, "bias_linear", !gated)},
                 {"untie_embeddings_and_output_weights", untied(m, model)},
                 {"hidden_dropout", 0.0},
                 {"attention_dropout", 0.0}};
    if (states(m, "qkv_bias")) part["add_qkv_bias"] = m.at("qkv_bias");
    if (flag(m, "qk_norm", false)) part["qk_layernorm"] = true;
    if (states(m, "mtp_layers") && m.at("mtp_layers") != 0)
        part["mtp_num_layers"] = whole(m, "mtp_layers", "model");
    return part;
}

json family_part(const json& m, const RecordModel& model) {
    const json& family = m.at("family");
    json part = {{"model_type", family.at("model_type")},
                 {"hidden_size", model.hidden},
                 {"num_hidden_layers", model.layers},
                 {"num_attention_heads", model.heads},
                 {"num_key_value_heads", model.kv_heads},
                 {"head_dim", model.head_dim},
                 {"intermediate_size", whole_or(m, "moe_ffn_hidden", "model", model.ffn_hidden)},
                 {"vocab_size", model.vocabulary}};
    if (states(m, "experts")) {
        part["num_local_experts"] = whole(m, "experts", "model");
        part["num_experts_per_tok"] = whole(m, "topk", "model");
    }
    part.merge_patch(family);
    return part;
}

void add_latents(const json& m, const json& arguments, json& part) {
    if (!states(m, "mla")) return;
    struct LatentWidth {
        const char *stated, *argument, *key;
        bool always;
    };
    constexpr LatentWidth kWidths[] = {
        {"q_lora_rank", "q-lora-rank", "q_lora_rank", false},
        {"kv_lora_rank", "kv-lora-rank", "kv_lora_rank", true},
        {"qk_nope_head_dim", "qk-head-dim", "qk_head_dim", true},
        {"qk_rope_head_dim", "qk-pos-emb-head-dim", "qk_pos_emb_head_dim", true},
        {"v_head_dim", "v-head-dim", "v_head_dim", true}};
    const bool stated = m.at("mla").is_object();
    if (!stated && !states(arguments, "kv-lora-rank"))
        throw Skip("latent attention whose widths are not stated");
    const json& widths = stated ? m.at("mla") : arguments;
    part["multi_latent_attention"] = part["qk_layernorm"] = true;
    for (const LatentWidth& width : kWidths) {
        const char* const name = stated ? width.stated : width.argument;
        if (width.always || states(widths, name))
            part[width.key] = whole(widths, name, stated ? "model/mla" : "arguments");
    }
}

}  // namespace orrery::compare
