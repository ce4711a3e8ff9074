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
constexpr const char* kTelling[] = {
    "model_type",         "n_head",      "num_attention_heads", "num_key_value_heads",
    "rms_norm_eps",       "rope_theta",  "layer_norm_epsilon",  "activation_function",
    "hidden_act",         "head_dim",    "tie_word_embeddings", "sliding_window",
    "scale_attn_weights", "rope_scaling"};

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

// Every parameter of the model once.
std::vector<runtime::NamedShape> parameters_of(const plan::Scenario& scenario) {
    const plan::Plan plan = plan::build_plan(scenario);
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (plan::Rank rank = 0; rank < plan.mesh.ranks(); ++rank) {
        const plan::Program& program = plan.program_of(rank);
        for (const plan::Bucket& bucket : program.buckets)
            for (const plan::BucketEntry& entry :
                 plan::bucket_entries(plan.blocks, program, scenario, bucket))
                shapes[plan::full_name(entry.layer, entry.name)] =
                    runtime::unpadded_dims(scenario, entry.parameter);
    }
    std::vector<runtime::NamedShape> all;
    for (auto& [name, shape] : shapes)
        all.push_back({name, std::move(shape)});
    return all;
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
    const auto weights = std::make_shared<const runtime::HuggingFaceWeights>(
        said.init_path,
        runtime::HuggingFaceModel{model.family, model.heads * model.head_dim,
                                  model.kv_heads * model.head_dim},
        parameters_of(run.scenario));
    return [weights, &scenario = run.scenario](const plan::Parameter& parameter,
                                               const std::string& name, std::int64_t first,
                                               std::span<double> values) {
        const std::int64_t kept =
            runtime::elements_of(runtime::unpadded_dims(scenario, parameter)) - first;
        const auto there =
            static_cast<std::size_t>(std::clamp<std::int64_t>(kept, 0, std::ssize(values)));
        weights->read(name, first, values.first(there));
        std::fill(values.begin() + static_cast<std::ptrdiff_t>(there), values.end(), 0.0);
    };
}

}  // namespace orrery::cli
