// Models in Hugging Face config.json keys. A config.json that other people wrote has keys that we
// do not read; those which would change the computation are refused, the rest are carried along.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostLayers = 100'000;
constexpr std::int64_t kMostHidden = 1'000'000;
constexpr std::int64_t kMostFfn = 10'000'000;
constexpr std::int64_t kMostVocabulary = 100'000'000;
constexpr NumberRange kProbability = {0, 1, false, true};

// What a key may hold without changing a dense decoder: nothing at all, null, or one of these.
struct Harmless {
    const char* key;
    std::vector<Json> values;
    const char* what;
};

const std::vector<Harmless>& refused_keys() {
    static const std::vector<Harmless> keys = {
        {"sliding_window", {}, "attention over a sliding window"},
        {"attention_chunk_size", {}, "attention in chunks"},
        {"num_experts", {0, 1}, "mixtures of experts"},
        {"num_local_experts", {0, 1}, "mixtures of experts"},
        {"n_routed_experts", {0, 1}, "mixtures of experts"},
        {"q_lora_rank", {}, "latent attention"},
        {"kv_lora_rank", {}, "latent attention"},
        {"num_nextn_predict_layers", {0}, "prediction of several tokens"},
        {"quantization_config", {}, "quantised weights"},
        {"partial_rotary_factor", {1, 1.0}, "rotary positions on a part of a head"},
        {"parallel_residual", {false}, "parallel residual branches"},
        {"use_parallel_residual", {false}, "parallel residual branches"},
        {"multi_query", {false}, "multi-query attention in this family"},
        {"add_cross_attention", {false}, "cross attention"},
        {"is_encoder_decoder", {false}, "encoders"},
        {"scale_attn_weights", {true}, "unscaled attention"},
        {"scale_attn_by_inverse_layer_idx", {false}, "attention scaled by layer"},
        {"reorder_and_upcast_attn", {false}, "attention in fp32"},
    };
    return keys;
}

void refuse_unmodelled(Reading& reading, const Section& section) {
    for (const Harmless& entry : refused_keys()) {
        const Json* value = section.find(entry.key);
        if (value == nullptr) continue;
        bool harmless = false;
        for (const Json& allowed : entry.values)
            harmless = harmless || *value == allowed;
        if (harmless) continue;
        Diagnostic& fault = reading.report(
            "S010", section.pointer(entry.key),
            fmt::format("{} changes the computation in a way that is not modelled", entry.key));
        fault.note = fmt::format("not modelled: {}", entry.what);
        fault.help.push_back("remove the key or set it to null to train the model without it");
    }
    const Json* layer_types = section.find("layer_types");
    if (layer_types == nullptr) return;
    bool full = layer_types->is_array();
    if (full) {
        for (const Json& type : *layer_types)
            full = full && type == "full_attention";
    }
    if (full) return;
    reading
        .report("S010", section.pointer("layer_types"),
                "layer_types changes the computation in a way that is not modelled")
        .help.push_back("only \"full_attention\" layers are modelled");
}

// A key of the other family would be passed over silently, and another model trained than meant.
void refuse_other_family(Reading& reading, const Section& section, ModelFamily family) {
    const std::vector<const char*> gpt2 = {"n_embd", "n_layer", "n_head", "n_inner", "n_positions"};
    const std::vector<const char*> llama = {
        "hidden_size",         "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim",          "intermediate_size"};
    const bool is_gpt2 = family == ModelFamily::gpt2;
    for (const char* key : is_gpt2 ? llama : gpt2) {
        const Json* value = section.find(key);
        if (value == nullptr) continue;
        reading
            .report("S004", section.pointer(key),
                    fmt::format("{} is not a key of model_type \"{}\"", key,
                                is_gpt2 ? "gpt2" : "llama"))
            .help.push_back(fmt::format("it is a key of \"{}\"; remove it or change model_type",
                                        is_gpt2 ? "llama" : "gpt2"));
    }
}

void read_name(Reading& reading, Section& section, Model& model) {
    std::string hugging_face;
    section.text("_name_or_path", hugging_face);
    if (section.text("name", model.name) && !model.name.empty()) return;
    const Source& source = reading.document().source("/model");
    if (!hugging_face.empty()) {
        model.name = hugging_face;
    } else if (source.kind == Source::Kind::file && source.text != reading.document().name()) {
        model.name = std::filesystem::path(source.text).stem().string();
    } else {
        model.name = model.family == ModelFamily::gpt2 ? "gpt2" : "llama";
    }
}

void require_multiple(Reading& reading, const char* whole, std::int64_t of, const char* part,
                      std::int64_t by) {
    if (!reading.good({whole, part}) || of % by == 0) return;
    Diagnostic& fault = reading.report_field(
        "S011", part,
        fmt::format("{} is not a multiple of {}", reading.shown(whole), reading.shown(part)));
    fault.arithmetic = fmt::format("{} / {} = {}", of, by, quotient(of, by));
    fault.help.push_back(
        fmt::format("{}: {}", reading.shown(part), choices_near(by, divisors(of, of), 4)));
}

void read_gpt2(Reading& reading, Section& section, Model& model) {
    section.integer("n_layer", model.layers, {1, kMostLayers}, Presence::required, "layers");
    section.integer("n_embd", model.hidden, {1, kMostHidden}, Presence::required, "hidden");
    section.integer("n_head", model.heads, {1, kMostHidden}, Presence::required, "heads");
    const bool older = section.has("n_ctx") && !section.has("n_positions");
    section.known(older ? "n_positions" : "n_ctx");
    section.integer(older ? "n_ctx" : "n_positions", model.max_positions, {}, Presence::required,
                    "max_positions");
    model.ffn_hidden = 4 * model.hidden;
    section.integer("n_inner", model.ffn_hidden, {1, kMostFfn}, Presence::optional, "ffn_hidden");
    model.kv_heads = model.heads;
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    std::string activation;
    section.word_of("activation_function", activation,
                    {"gelu_new", "gelu", "gelu_fast", "gelu_pytorch_tanh"}, "gelu_new");
    double embedding = 0.1;  // Hugging Face's defaults
    model.hidden_dropout = 0.1;
    model.attention_dropout = 0.1;
    section.number("resid_pdrop", model.hidden_dropout, kProbability);
    section.number("embd_pdrop", embedding, kProbability);
    section.number("attn_pdrop", model.attention_dropout, kProbability);
    if (reading.good({"model.resid_pdrop", "model.embd_pdrop"}) &&
        embedding != model.hidden_dropout) {
        Diagnostic& fault = reading.report_field("S010", "model.embd_pdrop",
                                                 "embd_pdrop and resid_pdrop must be equal");
        fault.arithmetic =
            fmt::format("embd_pdrop = {}, resid_pdrop = {}", embedding, model.hidden_dropout);
        fault.help.push_back("training.dropout sets every dropout of the model at once");
    }
    require_multiple(reading, "model.hidden", model.hidden, "model.heads", model.heads);
    if (model.heads > 0) model.head_dim = model.hidden / model.heads;
}

void read_llama_attention(Reading& reading, Section& section, Model& model) {
    model.kv_heads = model.heads;
    section.integer("num_key_value_heads", model.kv_heads, {1, kMostHidden}, Presence::optional,
                    "kv_heads");
    require_multiple(reading, "model.heads", model.heads, "model.kv_heads", model.kv_heads);
    const bool given = section.has("head_dim");
    if (!given) require_multiple(reading, "model.hidden", model.hidden, "model.heads", model.heads);
    if (!given && model.heads > 0) model.head_dim = model.hidden / model.heads;
    section.integer("head_dim", model.head_dim, {1, kMostHidden}, Presence::optional, "head_dim");
    if (!reading.good({"model.head_dim", "model.hidden", "model.heads"})) return;
    if (model.head_dim % 2 == 0) return;
    reading.report_field("S011", "model.head_dim", "rotary positions need an even head_dim")
        .arithmetic = fmt::format("head_dim = {}", model.head_dim);
}

void read_llama(Reading& reading, Section& section, Model& model) {
    model.tied_embeddings = false;
    model.attention_bias = false;
    model.mlp_bias = false;
    section.integer("num_hidden_layers", model.layers, {1, kMostLayers}, Presence::required,
                    "layers");
    section.integer("hidden_size", model.hidden, {1, kMostHidden}, Presence::required, "hidden");
    section.integer("num_attention_heads", model.heads, {1, kMostHidden}, Presence::required,
                    "heads");
    section.integer("intermediate_size", model.ffn_hidden, {1, kMostFfn}, Presence::required,
                    "ffn_hidden");
    read_llama_attention(reading, section, model);
    std::int64_t positions = 0;  // rotary: no table, so no bound that a plan depends on
    section.integer("max_position_embeddings", positions);
    section.boolean("tie_word_embeddings", model.tied_embeddings);
    section.boolean("attention_bias", model.attention_bias);
    section.boolean("mlp_bias", model.mlp_bias);
    section.number("attention_dropout", model.attention_dropout, kProbability);
    std::string activation;
    section.word_of("hidden_act", activation, {"silu"}, "silu");
}

}  // namespace

void read_model(Reading& reading, Model& model) {
    Section section(reading, "/model", "model", Section::Null::is_absent);
    if (!section.exists()) return;
    if (!section.choice<ModelFamily>("model_type", model.family,
                                     {{"gpt2", ModelFamily::gpt2}, {"llama", ModelFamily::llama}},
                                     Presence::required)) {
        if (!section.has("model_type")) {
            reading.report("S005", "/model/model_type", "model needs the key \"model_type\"")
                .help.push_back("known: \"gpt2\", \"llama\"");
        }
        reading.mark_bad("/model");  // without its family, no other key can be judged
        return;
    }
    section.integer("vocab_size", model.vocabulary, {1, kMostVocabulary}, Presence::required,
                    "vocabulary");
    read_name(reading, section, model);
    if (model.family == ModelFamily::gpt2) {
        read_gpt2(reading, section, model);
    } else {
        read_llama(reading, section, model);
    }
    refuse_unmodelled(reading, section);
    refuse_other_family(reading, section, model.family);
    for (const Harmless& entry : refused_keys())
        section.tolerate(entry.key);
    section.tolerate("layer_types");
    section.finish_tolerant();
}

}  // namespace orrery::plan
