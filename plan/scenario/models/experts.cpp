#include "plan/scenario/models/experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::plan {
namespace {

constexpr const char* kSparseStep = "decoder_sparse_step";
constexpr const char* kDenseLayers = "mlp_only_layers";

void report_layer(Reading& reading, const Section& section, const Model& model, std::size_t entry,
                  const Json& layer) {
    Diagnostic& fault =
        reading.report("S011", fmt::format("{}/{}", section.pointer(kDenseLayers), entry),
                       fmt::format("{} names layers by their number, from 0 on", kDenseLayers));
    fault.arithmetic =
        fmt::format("{}, {} = {}", layer.dump(), reading.shown("model.layers"), model.layers);
}

}  // namespace

void read_routing(Reading& reading, Section& section, const ExpertKeys& keys, Routing& routing) {
    routing.experts = keys.usual_experts;
    routing.chosen = keys.usual_chosen;
    section.integer(keys.experts, routing.experts, {0, kMostExperts}, Presence::optional,
                    "experts");
    section.integer(keys.chosen, routing.chosen, {1, kMostExperts}, Presence::optional,
                    "experts_per_token");
    if (!reading.good({"model.experts", "model.experts_per_token"}) || routing.experts == 0 ||
        routing.chosen <= routing.experts)
        return;
    Diagnostic& fault = reading.report("S011", section.pointer(keys.chosen),
                                       "a token goes through more experts than there are");
    fault.arithmetic =
        fmt::format("{} = {}, {} = {}", keys.chosen, routing.chosen, keys.experts, routing.experts);
}

void write_routing(const Routing& routing, const ExpertKeys& keys, Json& out) {
    out[keys.experts] = routing.experts;
    out[keys.chosen] = routing.chosen;
}

void set_experts(Model& model, const ExpertMlp& experts, const std::vector<bool>& dense) {
    const std::vector<LayerSpec> kinds = std::exchange(model.kinds, {});
    using Made = std::pair<std::size_t, bool>;  // of which kind, and whether it is dense
    std::vector<Made> found, of_layer;
    for (std::int64_t layer = 0; layer < std::max<std::int64_t>(1, model.layers); ++layer) {
        of_layer.emplace_back(model.kind_of(layer),
                              !dense.empty() && dense[static_cast<std::size_t>(layer)]);
        if (std::find(found.begin(), found.end(), of_layer.back()) == found.end())
            found.push_back(of_layer.back());
    }
    // In the order of the kinds that they are made of.
    std::stable_sort(found.begin(), found.end(),
                     [](const Made& a, const Made& b) { return a.first < b.first; });
    for (const auto& [kind, is_dense] : found) {
        model.kinds.push_back(kinds[kind]);
        if (!is_dense) model.kinds.back().mlp = experts;
    }
    std::vector<std::int32_t> kind_of_layer;
    for (const Made& made : of_layer)
        kind_of_layer.push_back(
            static_cast<std::int32_t>(std::find(found.begin(), found.end(), made) - found.begin()));
    model.kind_of_layer.clear();
    if (found.size() == 1) {
        model.kinds.front().name.clear();
        return;
    }
    model.kind_of_layer = std::move(kind_of_layer);
    for (std::size_t i = 0; i < found.size(); ++i) {
        std::string& name = model.kinds[i].name;
        name += fmt::format("{}{}", name.empty() ? "" : " ", found[i].second ? "dense" : "experts");
    }
}

std::vector<bool> read_dense_layers(Reading& reading, Section& section, const Model& model) {
    std::int64_t step = 1;
    section.integer(kSparseStep, step, {1, kMostLayers});
    section.known(kDenseLayers);
    if (!reading.good({"model.layers"}) || !section.good(kSparseStep)) return {};
    std::vector<bool> dense(static_cast<std::size_t>(model.layers));
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        dense[static_cast<std::size_t>(layer)] = (layer + 1) % step != 0;
    const Json* layers = section.find(kDenseLayers);
    if (layers == nullptr || layers->is_null()) return dense;
    if (!layers->is_array()) {
        section.wrong_type(kDenseLayers, "an array of numbers of layers");
        return dense;
    }
    for (std::size_t i = 0; i < layers->size(); ++i) {
        const Json& layer = (*layers)[i];
        if (!layer.is_number_integer() || layer < 0 || layer >= model.layers) {
            report_layer(reading, section, model, i, layer);
            return dense;
        }
        dense[layer.get<std::size_t>()] = true;
    }
    return dense;
}

void write_dense_layers(const Model& model, Json& out) {
    Json dense = Json::array();
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        if (model.kinds[model.kind_of(layer)].experts() == nullptr) dense.push_back(layer);
    out[kSparseStep] = 1;
    out[kDenseLayers] = std::move(dense);
}

}  // namespace orrery::plan
