#include "cli/run/first_weights.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "plan/assemble/build_plan.hpp"
#include "runtime/checkpoint/hugging_face.hpp"

namespace orrery::cli {
namespace {

using nlohmann::json;

// Keys of a config.json by which a model with tensors of the same shapes computes another thing.
constexpr const char* kTelling[] = {"model_type",
                                    "n_head",
                                    "num_attention_heads",
                                    "num_key_value_heads",
                                    "rms_norm_eps",
                                    "rope_theta",
                                    "layer_norm_epsilon",
                                    "activation_function",
                                    "hidden_act",
                                    "head_dim",
                                    "tie_word_embeddings",
                                    "sliding_window",
                                    "scale_attn_weights",
                                    "rope_scaling",
                                    "hidden_activation",
                                    "query_pre_attn_scalar",
                                    "attn_logit_softcapping",
                                    "final_logit_softcapping",
                                    "layer_types",
                                    "rope_local_base_freq",
                                    "partial_rotary_factor",
                                    "qk_nope_head_dim",
                                    "qk_rope_head_dim",
                                    "rope_interleave",
                                    "n_group",
                                    "topk_group",
                                    "num_experts_per_tok",
                                    "norm_topk_prob",
                                    "routed_scaling_factor"};

void check_config(const std::string& path, const json& model) {
    const runtime::MappedFile file(path);
    const json config = json::parse(
        std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()),
        nullptr, false);
    file.require_read();
    if (!config.is_object()) throw runtime::DataError(path, "is no JSON object");
    std::vector<std::string> differences;
    for (const char* key : kTelling)
        if (config.contains(key) && model.contains(key) && !config[key].is_null() &&
            config[key] != model[key])
            differences.push_back(fmt::format("{} is {}, the scenario's {}", key,
                                              config[key].dump(), model[key].dump()));
    // Newer ones have it here.
    const json rope = config.value("rope_parameters", json::object());
    if (rope.is_object() && rope.contains("rope_theta") && model.contains("rope_theta") &&
        rope["rope_theta"] != model["rope_theta"])
        differences.push_back(fmt::format("rope_theta is {}, the scenario's {}",
                                          rope["rope_theta"].dump(), model["rope_theta"].dump()));
    if (!differences.empty())
        throw runtime::DataError(
            path, fmt::format("is of another model: {}", fmt::join(differences, "; ")));
}

std::vector<runtime::NamedShape> shapes_of(const std::map<std::string, plan::Parameter>& all) {
    std::vector<runtime::NamedShape> shapes;
    for (const auto& [name, parameter] : all)
        shapes.push_back({name, parameter.unpadded()});
    return shapes;
}

// Rows of the joint projection are those of queries, of keys and of values.
runtime::HuggingFaceModel named_model(const std::string& family,
                                      const std::map<std::string, plan::Parameter>& all) {
    runtime::HuggingFaceModel model{family};
    if (const auto qkv = all.find(plan::full_name(0, "qkv.weight")); qkv != all.end()) {
        model.q_rows = qkv->second.sections.at(0);
        model.kv_rows = qkv->second.sections.at(1);
    }
    model.experts = runtime::experts_of(shapes_of(all));
    return model;
}

}  // namespace

runtime::FirstWeights first_weights(const TrainRun& run) {
    const plan::Run& said = run.scenario.run;
    if (said.init_from.empty()) return {};
    if (said.init_path.empty())
        throw runtime::DataError(said.init_from, "no folder with a config.json was found there");
    const plan::Model& model = run.scenario.model;
    const std::vector<std::string> families = runtime::hugging_face_families();
    if (std::find(families.begin(), families.end(), model.family) == families.end())
        throw runtime::DataError(said.init_path,
                                 fmt::format("weights of a model of family {} cannot be read; of "
                                             "{} they can",
                                             model.family, fmt::join(families, ", ")));
    check_config(said.init_path + "/config.json", json::parse(run.resolved_json)["model"]);
    auto parameters = plan::parameters_of(plan::build_plan(run.scenario));
    // Adapters are none of the model's, and start as ever.
    const bool adapts = run.scenario.training.lora.on();
    if (adapts) std::erase_if(parameters, [](const auto& each) { return !each.second.frozen; });
    const auto weights = std::make_shared<const runtime::HuggingFaceWeights>(
        said.init_path, named_model(model.family, parameters), shapes_of(parameters));
    return [weights, adapts,
            random = runtime::random_weights(run.scenario.training.seed, model.initializer_range,
                                             model.layers)](
               const plan::Parameter& parameter, const std::string& name, std::int64_t first,
               std::span<double> values) {
        if (adapts && !parameter.frozen) return random(parameter, name, first, values);
        const std::int64_t kept = runtime::elements_of(parameter.unpadded()) - first;
        const auto there =
            static_cast<std::size_t>(std::clamp<std::int64_t>(kept, 0, std::ssize(values)));
        weights->read(name, first, values.first(there));
        std::fill(values.begin() + static_cast<std::ptrdiff_t>(there), values.end(), 0.0);
    };
}

}  // namespace orrery::cli
