#include "plan/scenario/models/megatron_experts.hpp"

#include <fmt/format.h>

namespace orrery::plan {
namespace {

constexpr ExpertKeys kMegatronKeys = {"num_experts", "moe_router_topk", 0, 2};
constexpr const char* kBiased = "moe_router_enable_expert_bias";
constexpr const char* kFrequency = "moe_layer_freq";
constexpr const char* kPreSoftmax = "moe_router_pre_softmax";

// A number n: every n-th layer from the first on has experts. A list: those where 1 stands.
std::vector<bool> read_frequency(Reading& reading, Section& section, const Model& model) {
    section.known(kFrequency);
    const Json* value = section.find(kFrequency);
    if (value == nullptr || !reading.good({"model.layers"})) return {};
    std::vector<bool> dense;
    if (value->is_array() && static_cast<std::int64_t>(value->size()) == model.layers) {
        for (const Json& entry : *value)
            if (entry == 0 || entry == 1) dense.push_back(entry == 0);
        if (static_cast<std::int64_t>(dense.size()) == model.layers) return dense;
    }
    std::int64_t every = 1;
    if (value->is_array()) {
        section.wrong_type(kFrequency, "a whole number, or a list with 0 or 1 for each layer");
    } else if (section.integer(kFrequency, every, {1, kMostLayers})) {
        for (std::int64_t layer = 0; layer < model.layers; ++layer)
            dense.push_back(layer % every != 0);
        return dense;
    }
    return {};
}

// Megatron-LM weighs by a softmax over the chosen, or over all before it chooses; sigmoids of
// several experts add up to 1.
void read_scores(Section& section, Routing& routing) {
    std::string function;
    section.word_of("moe_router_score_function", function, {"softmax", "sigmoid"}, "softmax");
    bool before = false;
    section.boolean(kPreSoftmax, before);
    routing.score = function == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax;
    routing.normalizes = routing.score == RouterScore::sigmoid ? routing.chosen > 1 : !before;
    section.number("moe_router_topk_scaling_factor", routing.factor, kPositive);
    section.boolean(kBiased, routing.biased);
}

void read_groups(Reading& reading, Section& section, Routing& routing) {
    const bool groups = section.integer("moe_router_num_groups", routing.groups, {1, kMostExperts});
    const bool kept =
        section.integer("moe_router_group_topk", routing.kept_groups, {1, kMostExperts});
    if (!groups && !kept) return;
    if (groups && kept && routing.kept_groups <= routing.groups &&
        routing.experts % routing.groups == 0 && routing.chosen % routing.kept_groups == 0) {
        routing.group_best = routing.chosen / routing.kept_groups;
        return;
    }
    Diagnostic& fault = reading.report(
        "S011", section.pointer(groups ? "moe_router_num_groups" : "moe_router_group_topk"),
        "groups of experts divide them, and those that are kept what a token goes "
        "through");
    fault.arithmetic = fmt::format(
        "num_experts {}, moe_router_num_groups {}, moe_router_topk {}, moe_router_group_topk {}",
        routing.experts, routing.groups, routing.chosen, routing.kept_groups);
}

void refuse_biases(Reading& reading, Section& section, const DenseMlp& expert) {
    if (!expert.bias) return;
    refuse_value(reading, section, "num_experts", "experts with biases",
                 "\"add_bias_linear\": false");
}

}  // namespace

void read_megatron_experts(Reading& reading, Section& section, Model& model) {
    ExpertMlp experts;
    read_routing(reading, section, kMegatronKeys, experts.routing);
    read_scores(section, experts.routing);
    read_groups(reading, section, experts.routing);
    experts.expert = model.mlp();
    section.integer("moe_ffn_hidden_size", experts.expert.ffn_hidden, {1, kMostFfn},
                    Presence::optional, "expert_ffn");
    section.integer("moe_shared_expert_intermediate_size", experts.shared_ffn, {0, kMostFfn},
                    Presence::optional, "shared_expert_ffn");
    const std::vector<bool> dense = read_frequency(reading, section, model);
    if (experts.routing.experts == 0) return;
    refuse_biases(reading, section, experts.expert);
    set_experts(model, experts, dense);
}

void write_megatron_experts(const Model& model, Json& out) {
    const ExpertMlp* experts = model.experts();
    if (experts == nullptr) return;
    const Routing& routing = experts->routing;
    write_routing(routing, kMegatronKeys, out);
    out["moe_ffn_hidden_size"] = experts->expert.ffn_hidden;
    if (experts->shared_ffn > 0) out["moe_shared_expert_intermediate_size"] = experts->shared_ffn;
    out["moe_router_score_function"] = spelling(routing.score);
    out[kPreSoftmax] = routing.score == RouterScore::softmax && !routing.normalizes;
    if (routing.biased) out[kBiased] = true;
    if (routing.factor != 1) out["moe_router_topk_scaling_factor"] = plain(routing.factor);
    if (routing.groups > 0) {
        out["moe_router_num_groups"] = routing.groups;
        out["moe_router_group_topk"] = routing.kept_groups;
    }
    Json frequency = Json::array();
    bool dense = false;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        const bool has = model.kinds[model.kind_of(layer)].experts() != nullptr;
        frequency.push_back(has ? 1 : 0);
        dense = dense || !has;
    }
    if (dense) out[kFrequency] = std::move(frequency);
}

}  // namespace orrery::plan
