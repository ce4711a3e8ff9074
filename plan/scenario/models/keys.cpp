#include "plan/scenario/models/keys.hpp"

#include <fmt/format.h>

#include "plan/scenario/arithmetic.hpp"

namespace orrery::plan {
namespace {

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

}  // namespace

std::string spelling(Reading& reading, Section& section,
                     std::initializer_list<const char*> spellings) {
    std::string used;
    for (const char* key : spellings) {
        section.known(key);
        if (!section.has(key)) continue;
        if (used.empty()) {
            used = key;
        } else if (*section.find(key) != *section.find(used)) {
            Diagnostic& fault = reading.report("S011", section.pointer(key),
                                               fmt::format("{} and {} differ", used, key));
            fault.arithmetic = fmt::format("{} = {}, {} = {}", used, section.find(used)->dump(),
                                           key, section.find(key)->dump());
            fault.help.push_back("they are two spellings of one key: remove one");
        }
    }
    return used.empty() ? *spellings.begin() : used;
}

bool is_null(const Reading& reading, const char* key) {
    const Json* value = reading.document().find(std::string("/model/") + key);
    return value != nullptr && value->is_null();
}

void read_sizes(Section& section, Model& model, const std::string& layers,
                const std::string& hidden, const std::string& heads) {
    section.integer(layers, model.layers, {1, kMostLayers}, Presence::required, "layers");
    section.integer(hidden, model.hidden, {1, kMostHidden}, Presence::required, "hidden");
    section.integer(heads, model.attention().heads, {1, kMostHidden}, Presence::required, "heads");
}

void read_kv_heads(Reading& reading, Section& section, Model& model, const char* key,
                   std::int64_t usual) {
    model.attention().kv_heads =
        usual == 0 || is_null(reading, key) ? model.attention().heads : usual;
    section.integer(key, model.attention().kv_heads, {1, kMostHidden}, Presence::optional,
                    "kv_heads");
    require_multiple(reading, "model.heads", model.attention().heads, "model.kv_heads",
                     model.attention().kv_heads);
}

void split_heads(Reading& reading, Model& model) {
    require_multiple(reading, "model.hidden", model.hidden, "model.heads", model.attention().heads);
    if (model.attention().heads > 0)
        model.attention().head_dim = model.hidden / model.attention().heads;
}

void read_head_dim(Reading& reading, Section& section, Model& model, std::int64_t usual) {
    model.attention().head_dim = usual;
    if (usual == 0 && !section.has("head_dim")) split_heads(reading, model);
    section.integer("head_dim", model.attention().head_dim, {1, kMostHidden}, Presence::optional,
                    "head_dim");
}

void read_activation(Section& section, Model& model, const char* key, Words words,
                     const char* usual) {
    std::vector<std::string> names = {"gelu_new", "gelu", "gelu_fast", "gelu_pytorch_tanh"};
    if (words == Words::gelu_or_relu) names.insert(names.begin(), "relu");
    std::string word = usual;
    section.word_of(key, word, names, usual);
    model.mlp().activation = word == "relu" ? Activation::relu : Activation::gelu;
    // The other three differ in how they round √(2/π) and in what fuses their kernels.
    model.mlp().gelu = word == "gelu" ? Gelu::erf : Gelu::tanh;
}

void write_activation(const Model& model, Json& out, const char* key) {
    if (out.contains(key)) return;
    if (model.mlp().activation == Activation::relu) {
        out[key] = "relu";
    } else {
        out[key] = model.mlp().gelu == Gelu::erf ? "gelu" : "gelu_pytorch_tanh";
    }
}

void refuse_value(Reading& reading, const Section& section, const char* key, const char* what,
                  const char* help) {
    Diagnostic& fault = reading.report(
        "S010", section.pointer(key),
        fmt::format("{} changes the computation in a way that is not modelled", key));
    fault.note = fmt::format("not modelled: {}", what);
    fault.help.emplace_back(help);
}

void read_norm_epsilon(Section& section, Model& model, const char* key, double usual) {
    model.norm_epsilon = usual;
    section.number(key, model.norm_epsilon, {0, 1, true, true}, Presence::optional, "norm_epsilon");
}

void read_initializer(Section& section, Model& model, const char* key) {
    section.number(key, model.initializer_range, {0, kLargestNumber, true, false},
                   Presence::optional, "initializer_range");
}

void read_mtp_layers(Reading& reading, Section& section, Model& model, const char* key) {
    section.integer(key, model.mtp_layers, {0, 1}, Presence::optional, "mtp_layers");
    if (model.mtp_layers > 0 && reading.good({"model.layers"}) && model.layers > 0)
        model.mtp_kind = static_cast<std::int32_t>(model.kind_of(model.layers - 1));
}

void read_stored_type(Reading& reading, Section& section, const char* method) {
    section.known("quantization_config");
    const Json* stored = section.find("quantization_config");
    if (stored == nullptr || stored->is_null()) return;
    if (stored->is_object() && stored->value("quant_method", Json()) == method) return;
    refuse_value(reading, section, "quantization_config", "quantised weights",
                 "remove the key or set it to null to train the model without it");
}

}  // namespace orrery::plan
