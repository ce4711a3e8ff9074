#include "calib/compare/record_experts.hpp"

#include <fmt/format.h>

#include <regex>
#include <string>

#include <nlohmann/json.hpp>

#include "calib/compare/record_rules.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

constexpr const char* kLayers = "moe_layer_freq";

// Lists of 0 and 1 as Python writes them in Megatron's arguments: "([0]*3+[1]*11)".
json written_out(const json& stated) {
    const std::string text = stated.get<std::string>();
    static const std::regex list(R"(\(?\[[01]\]\*\d{1,4}(\+\[[01]\]\*\d{1,4})*\)?)");
    static const std::regex run(R"(\[([01])\]\*(\d+))");
    if (!std::regex_match(text, list))
        throw Skip(fmt::format("layers with experts by {} are not read", text));
    json layers = json::array();
    for (std::sregex_iterator at(text.begin(), text.end(), run), end; at != end; ++at)
        for (int i = 0; i < std::stoi((*at)[2]); ++i)
            layers.push_back(std::stoi((*at)[1]));
    return layers;
}

// Which layers have experts: after so many dense ones all, every n-th, or those of a list.
void add_frequency(const json& m, std::int64_t layers, json& part) {
    if (states(m, "first_dense_layers")) {
        const std::int64_t dense = whole(m, "first_dense_layers", "model");
        json frequency = json::array();
        for (std::int64_t layer = 0; layer < layers; ++layer)
            frequency.push_back(layer < dense ? 0 : 1);
        part[kLayers] = std::move(frequency);
        return;
    }
    if (!states(m, kLayers)) return;
    part[kLayers] = m.at(kLayers).is_string() ? written_out(m.at(kLayers)) : m.at(kLayers);
}

}  // namespace

void add_experts(const json& m, json& part) {
    if (!states(m, "experts")) return;
    part["num_experts"] = whole(m, "experts", "model");
    part["moe_router_topk"] = whole(m, "topk", "model");
    if (states(m, "moe_ffn_hidden"))
        part["moe_ffn_hidden_size"] = whole(m, "moe_ffn_hidden", "model");
    if (states(m, "shared_expert_ffn"))
        part["moe_shared_expert_intermediate_size"] = whole(m, "shared_expert_ffn", "model");
    else if (states(m, "shared_experts"))  // each as wide as the others
        part["moe_shared_expert_intermediate_size"] =
            whole(m, "shared_experts", "model") * whole(m, "moe_ffn_hidden", "model");
    add_frequency(m, part.at("num_layers").get<std::int64_t>(), part);
}

void add_expert_degrees(const json& l, json& layout) {
    const std::int64_t parallel = whole_or(l, "ep", "layout", 1);
    layout["expert_parallel"] = parallel;
    // Where it is not said, Megatron Core cuts experts as it does all else, if the other ranks of a
    // stage can then share them out.
    const std::int64_t others = layout.at("context_parallel").get<std::int64_t>() *
                                layout.at("data_parallel").get<std::int64_t>();
    const std::int64_t usual =
        others % parallel == 0 ? layout.at("tensor_parallel").get<std::int64_t>() : 1;
    layout["expert_tensor_parallel"] = whole_or(l, "etp", "layout", usual);
    // Stacks that know how many rows come before they allocate have room for these.
    layout["expert_row_bound"] = 1;
    // Megatron Core shares out the tokens wherever experts are beside tensor-parallel ranks.
    if (layout.at("tensor_parallel") > 1) layout["sequence_parallel"] = true;
}

}  // namespace orrery::compare
