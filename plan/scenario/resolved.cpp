#include "plan/scenario/resolved.hpp"

#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

// What the model's file says that we do not read (torch_dtype, architectures, …) is carried along.
Json model_part(const Model& model, const Document& document) {
    Json out = Json::object();
    auto& members = out.get_ref<Json::object_t&>();  // of keys that differ: none is looked for
    for (const auto& [key, value] : document.find("/model")->items()) {
        if (!value.is_null()) members.emplace_back(key, value);
    }
    out["name"] = model.name;
    out["vocab_size"] = model.vocabulary;
    out["tie_word_embeddings"] = model.tied_embeddings;
    write_model(model, out);
    return out;
}

}  // namespace

Json resolved(const Scenario& scenario, const Document& document, const Verbatim& verbatim) {
    Json out = Json::object();
    if (const Json* description = document.find("/description")) out["description"] = *description;
    if (const Json* imported = document.find("/imported")) out["imported"] = *imported;
    out["model"] = model_part(scenario.model, document);
    out["cluster"] = written_cluster(scenario.cluster, document);
    out["layout"] = written_layout(scenario.layout);
    out["training"] = written_training(scenario.training, document, verbatim);
    if (document.find("/run") != nullptr) out["run"] = written_run(scenario.run, document);
    write_fleet(scenario, out);
    return out;
}

std::string resolved_text(const Json& resolved) {
    return resolved.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::plan
