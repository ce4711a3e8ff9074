#include "cli/model_facts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "plan/checks/validate_plan.hpp"

namespace orrery::cli {
namespace {

using plan::LayerSpec;
using plan::Model;

std::string said_value(const nlohmann::json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    return value.is_number_integer() ? whole_text(value.get<std::int64_t>()) : value.dump();
}

class FactList {
  public:
    explicit FactList(const Model& model) : model_(model) {}

    void add(const char* key, const char* words, nlohmann::json value) {
        facts_.push_back({key, words, {std::move(value)}});
    }
    // Of what may be missing: 0.
    void add_if(const char* key, const char* words, std::int64_t value) {
        facts_.push_back({key, words, {}});
        if (value > 0) facts_.back().values.emplace_back(value);
    }
    // value_of(kind): 0 of kinds that have none.
    template <typename F>
    void of_kinds(const char* key, const char* words, const F& value_of) {
        ModelFact fact{key, words, {}};
        for (const LayerSpec& kind : model_.kinds) {
            const nlohmann::json value = value_of(kind);
            if (value != 0 &&
                std::find(fact.values.begin(), fact.values.end(), value) == fact.values.end())
                fact.values.push_back(value);
        }
        facts_.push_back(std::move(fact));
    }
    template <typename F>
    void of_experts(const char* key, const char* words, const F& value_of) {
        of_kinds(key, words, [&](const LayerSpec& kind) {
            return kind.experts() == nullptr ? 0 : value_of(*kind.experts());
        });
    }
    std::vector<ModelFact> take() { return std::move(facts_); }

  private:
    const Model& model_;
    std::vector<ModelFact> facts_;
};

std::int64_t layers_with_experts(const Model& model) {
    std::int64_t layers = 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        layers += model.kinds[model.kind_of(layer)].experts() != nullptr ? 1 : 0;
    return layers;
}

std::string positions(const Model& model) {
    if (model.learned_positions) return "learned";
    if (model.attention().alibi) return "alibi";
    const bool turned =
        std::any_of(model.kinds.begin(), model.kinds.end(),
                    [](const LayerSpec& kind) { return kind.attention().rotary_dim > 0; });
    return turned ? "rotary" : "none";
}

}  // namespace

nlohmann::ordered_json ModelFact::json() const {
    if (values.empty()) return nullptr;
    return values.size() == 1 ? nlohmann::ordered_json(values.front())
                              : nlohmann::ordered_json(values);
}

std::string ModelFact::text() const {
    std::string all;
    for (const nlohmann::json& value : values)
        all += (all.empty() ? "" : " and ") + said_value(value);
    return all.empty() ? "none" : all;
}

std::vector<ModelFact> model_facts(const plan::Scenario& scenario) {
    const Model& model = scenario.model;
    FactList facts(model);
    facts.add("family", "family", model.family);
    facts.add("parameters", "parameters", plan::conserved_of(scenario).parameters);
    facts.add("active_parameters", "active parameters", plan::active_parameters_of(scenario));
    facts.add("layers", "layers", model.layers);
    facts.add_if("expert_layers", "layers with experts", layers_with_experts(model));
    facts.add_if("prediction_layers", "layers that predict further tokens", model.mtp_layers);
    facts.add("width", "width", model.hidden);
    facts.of_kinds("heads", "heads", [](const auto& kind) { return kind.attention().heads; });
    facts.of_kinds("kv_heads", "heads of keys and values",
                   [](const auto& kind) { return kind.attention().kv_heads; });
    facts.of_kinds("head_width", "width of a head",
                   [](const auto& kind) { return kind.attention().head_dim; });
    facts.of_kinds("value_width", "width of a head's values",
                   [](const auto& kind) { return kind.attention().values(); });
    facts.of_kinds("query_latents", "width of queries' latents",
                   [](const auto& kind) { return kind.attention().latents.q_rank; });
    facts.of_kinds("kv_latents", "width of keys' and values' latents",
                   [](const auto& kind) { return kind.attention().latents.kv_rank; });
    facts.of_kinds("window", "tokens of a sliding window",
                   [](const auto& kind) { return kind.attention().window; });
    facts.of_kinds("mlp_width", "width of an MLP", [](const LayerSpec& kind) {
        return kind.experts() != nullptr ? 0 : kind.dense().ffn_hidden;
    });
    facts.of_experts("experts", "experts", [](const auto& mlp) { return mlp.routing.experts; });
    facts.of_experts("experts_per_token", "experts per token",
                     [](const auto& mlp) { return mlp.routing.chosen; });
    facts.of_experts("expert_width", "width of an expert",
                     [](const auto& mlp) { return mlp.expert.ffn_hidden; });
    facts.of_experts("shared_width", "width of shared experts",
                     [](const auto& mlp) { return mlp.shared_ffn; });
    facts.add("vocabulary", "vocabulary", model.vocabulary);
    facts.add("tied_embeddings", "head is the embedding", model.tied_embeddings);
    facts.add("positions", "positions", positions(model));
    return facts.take();
}

std::string model_line(const plan::Scenario& scenario) {
    const Model& model = scenario.model;
    const std::int64_t parameters = plan::conserved_of(scenario).parameters;
    const std::int64_t active = plan::active_parameters_of(scenario);
    const auto counted = [](std::int64_t n) { return counted_text(static_cast<double>(n)); };
    std::string line = fmt::format(
        "{}: {} parameters",
        model.name.empty() ? model.family : fmt::format("{} ({})", model.name, model.family),
        counted(parameters));
    if (active != parameters) line += fmt::format(", {} active", counted(active));
    line += fmt::format("; {} layers, width {}, {} heads", model.layers, whole_text(model.hidden),
                        model.attention().heads);
    if (const plan::ExpertMlp* mlp = model.experts())
        line += fmt::format(", {} of {} experts", mlp->routing.chosen, mlp->routing.experts);
    return line + ", vocabulary " + whole_text(model.vocabulary);
}

}  // namespace orrery::cli
