#include "plan/scenario/export/differing_model.hpp"

#include <fmt/format.h>

namespace orrery::plan::exports {
namespace {

struct Part {
    const char* name;
    bool (*same)(const Model&, const Model&);
};

constexpr Part kParts[] = {
    {"a number of layers", [](const Model& a, const Model& b) { return a.layers == b.layers; }},
    {"a width", [](const Model& a, const Model& b) { return a.hidden == b.hidden; }},
    {"a vocabulary", [](const Model& a, const Model& b) { return a.vocabulary == b.vocabulary; }},
    {"layers that predict further tokens",
     [](const Model& a, const Model& b) { return a.mtp_layers == b.mtp_layers; }},
    {"norms",
     [](const Model& a, const Model& b) {
         return a.norm == b.norm && a.norm_epsilon == b.norm_epsilon &&
                a.norm_weight_offset == b.norm_weight_offset;
     }},
    {"positions",
     [](const Model& a, const Model& b) {
         return a.learned_positions == b.learned_positions &&
                a.position_rows() == b.position_rows() && a.position_offset == b.position_offset;
     }},
    {"an embedding",
     [](const Model& a, const Model& b) {
         return a.embedding_norm == b.embedding_norm && a.tied_embeddings == b.tied_embeddings &&
                a.embedding_scale == b.embedding_scale;
     }},
    {"dropout",
     [](const Model& a, const Model& b) {
         return a.hidden_dropout == b.hidden_dropout &&
                (a.hidden_dropout == 0 || a.embedding_dropout == b.embedding_dropout);
     }},
    {"logits", [](const Model& a, const Model& b) { return a.logit_soft_cap == b.logit_soft_cap; }},
    {"first weights",
     [](const Model& a, const Model& b) { return a.initializer_range == b.initializer_range; }},
};

// What a layer that turns nothing would turn it by says nothing, and 0 values are as wide as keys.
SoftmaxAttention plain_attention(SoftmaxAttention attention) {
    if (attention.rotary_dim == 0) {
        attention.rope_theta = SoftmaxAttention{}.rope_theta;
        attention.rope_scaling = RopeScaling{};
    }
    attention.value_dim = attention.values();
    return attention;
}

Mlp plain_mlp(Mlp mlp) {
    const auto settle = [](DenseMlp& dense) {
        if (dense.gated() || dense.activation != Activation::gelu) dense.gelu = Gelu::tanh;
    };
    if (auto* experts = std::get_if<ExpertMlp>(&mlp))
        settle(experts->expert);
    else
        settle(std::get<DenseMlp>(mlp));
    return mlp;
}

std::string differing_layer(const LayerSpec& a, const LayerSpec& b) {
    if (plain_attention(a.attention()) != plain_attention(b.attention())) return "attention";
    if (plain_mlp(a.mlp) != plain_mlp(b.mlp))
        return a.experts() != nullptr || b.experts() != nullptr ? "experts" : "an MLP";
    LayerSpec rest = b;
    rest.name = a.name;
    rest.mixer = a.mixer;
    rest.mlp = a.mlp;
    return rest == a ? "" : "norms or residuals";
}

}  // namespace

std::vector<std::string> differing_parts(const Model& a, const Model& b) {
    std::vector<std::string> names;
    for (const Part& part : kParts)
        if (!part.same(a, b)) names.emplace_back(part.name);
    if (a.layers != b.layers) return names;
    for (std::int64_t layer = 0; layer < a.layers + std::min(a.mtp_layers, b.mtp_layers); ++layer) {
        const std::string part =
            differing_layer(a.kinds[a.kind_of(layer)], b.kinds[b.kind_of(layer)]);
        if (part.empty()) continue;
        names.push_back(fmt::format("{} in layer {}", part, layer));
        break;  // layers are alike by dozens
    }
    return names;
}

}  // namespace orrery::plan::exports
