#include "plan/scenario/export/wanted.hpp"

#include <algorithm>
#include <cmath>

#include "plan/scenario/parts.hpp"

namespace orrery::plan::exports {
namespace {

void flatten(const Json& value, const std::string& path, Values& out) {
    if (!value.is_object() || value.empty()) {
        out[path] = value;
        return;
    }
    for (const auto& [key, inner] : value.items())
        flatten(inner, path.empty() ? key : path + '.' + key, out);
}

}  // namespace

Values flat_values(const std::string& resolved_json) {
    Json tree = Json::parse(resolved_json);
    for (const char* part : {"description", "imported", "cluster", "model"})
        tree.erase(part);
    Json& training = tree["training"];
    const Json framework = training["framework"];
    training["framework"] = framework["name"];
    for (const auto& [key, constant] : framework["flags"].items())
        training[key] = constant["value"];
    Values values;
    flatten(tree, "", values);
    return values;
}

Wanted::Wanted(const ReadResult& read)
    : scenario_(*read.scenario), values_(flat_values(read.resolved_json)) {
    Model model = scenario_.model;
    model.family = "megatron";
    Json written = {{"vocab_size", model.vocabulary}};
    write_model(model, written);
    flatten(written, "model", values_);
    for (const std::string& pointer : read.given) {
        std::string key = pointer.substr(1);
        std::replace(key.begin(), key.end(), '/', '.');
        given_.insert(key);
    }
}

Json Wanted::at(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? Json() : found->second;
}

std::int64_t Wanted::steps() const {
    if (scenario_.run.steps > 0) return scenario_.run.steps;
    const double per_step = static_cast<double>(layout().global_batch_size) *
                            static_cast<double>(training().sequence_length);
    return static_cast<std::int64_t>(std::ceil(training().tokens / per_step));
}

std::int64_t Wanted::ranks_per_node() const {
    std::int64_t each = std::min(scenario_.cluster.devices_per_node, layout().ranks());
    while (layout().ranks() % each != 0)
        --each;
    return each;
}

}  // namespace orrery::plan::exports
