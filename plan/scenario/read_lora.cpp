// training.lora: which of a layer's linears have adapters beside them, and of what rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr char kTargets[] = "target_modules";

// Megatron Bridge's names (peft/lora.py), and those that parameters of the linears begin with.
struct Linear {
    std::string_view name;
    std::string_view parameters;
    bool Lora::*adapted;
};
constexpr std::array kLinears = {
    Linear{"linear_qkv", "qkv", &Lora::qkv},
    Linear{"linear_proj", "projection", &Lora::projection},
    Linear{"linear_fc1", "fc1", &Lora::fc1},
    Linear{"linear_fc2", "fc2", &Lora::fc2},
};

std::vector<std::string_view> linear_names() {
    std::vector<std::string_view> names;
    for (const Linear& linear : kLinears)
        names.push_back(linear.name);
    return names;
}

std::string linears_shown() {
    std::string all;
    for (const Linear& linear : kLinears)
        all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", linear.name);
    return all;
}

void read_target(Reading& reading, const std::string& pointer, const Json& value, Lora& lora) {
    if (!value.is_string()) {
        reading.report("S006", pointer, "a linear of a layer is a word")
            .help.push_back(linears_shown());
        return;
    }
    const auto& word = value.get_ref<const std::string&>();
    for (const Linear& linear : kLinears) {
        if (word != linear.name) continue;
        lora.*linear.adapted = true;
        return;
    }
    reading.report("S008", pointer, fmt::format("a layer has no linear \"{}\"", word))
        .help.push_back(linears_shown());
}

void read_targets(Reading& reading, Section& section, Lora& lora) {
    const Json* value = section.find(kTargets);
    if (value == nullptr) return;
    if (!value->is_array()) {
        section.wrong_type(kTargets, "an array of linears");
        return;
    }
    for (const Linear& linear : kLinears)
        lora.*linear.adapted = false;
    const std::string pointer = section.pointer(kTargets);
    for (std::size_t i = 0; i < value->size(); ++i)
        read_target(reading, fmt::format("{}/{}", pointer, i), (*value)[i], lora);
    if (value->empty())
        reading.report("S037", pointer, "no linear is adapted, so that nothing would be trained")
            .help.push_back("some of " + linears_shown() + ", or leave lora out");
}

void refuse(Reading& reading, const char* message, std::string arithmetic, const char* help) {
    Diagnostic& fault = reading.report_field("S037", "training.lora", message);
    fault.arithmetic = std::move(arithmetic);
    fault.help.push_back(help);
}

// The narrowest matrix that is adapted.
std::int64_t least_side(const Model& model, const Lora& lora) {
    std::int64_t least = model.hidden;
    for (const LayerSpec& kind : model.kinds) {
        const SoftmaxAttention& attention = kind.attention();
        if (lora.projection) least = std::min(least, attention.context_width());
        if ((lora.fc1 || lora.fc2) && kind.experts() == nullptr)
            least = std::min(least, kind.dense().ffn_hidden);
    }
    return least;
}

void check_parts(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Training& training = scenario.training;
    if (training.precision == Precision::fp8 && layout.tensor_parallel > 1 &&
        !layout.sequence_parallel)
        refuse(reading,
               "adapters beside eight-bit products are not summed with them over tensor ranks",
               "training.precision = fp8, layout.tensor_parallel > 1, sequence_parallel = false",
               "\"sequence_parallel\": true, or \"precision\": \"bf16\"");
    if (training.fp8.parameters)
        refuse(reading, "frozen weights are not held in eight bits",
               "training.fp8_param_gather = true", "fp8_param_gather false");
    if (layout.recompute == Recompute::selective_op)
        refuse(reading, "selective_op counts a layer's own products, of which adapters are none",
               "layout.recompute = selective_op",
               "\"recompute\": \"none\", \"selective\", \"selective_layer\" or \"full\"");
    if (training.loss_chunks > 1)
        refuse(reading, "a head in chunks makes its weight's gradient, which is frozen",
               fmt::format("training.loss_chunks = {}", training.loss_chunks), "loss_chunks 1");
    if (layout.staleness > 0)
        refuse(reading, "steps under way would each have a copy of the frozen weights",
               fmt::format("layout.staleness = {}", layout.staleness), "staleness 0");
    if (training.framework.tensor_overlap_parts > 1)
        refuse(reading, "what adapters add to a product is not added part by part",
               fmt::format("tensor_overlap_parts = {}", training.framework.tensor_overlap_parts),
               "tensor_overlap_parts 1");
    if (std::any_of(layout.layers_per_stage.begin(), layout.layers_per_stage.end(),
                    [](std::int64_t layers) { return layers == 0; }))
        refuse(reading, "a stage without layers has nothing to train",
               "a count of layers_per_stage is 0", "at least one layer in each stage");
    for (const LayerSpec& kind : scenario.model.kinds)
        if (kind.attention().sinks)
            return refuse(reading, "attention sinks are trained, and cannot be frozen",
                          "the model's attention has sinks", "leave lora out");
}

}  // namespace

bool Lora::adapts(std::string_view linear) const {
    return on() && std::any_of(kLinears.begin(), kLinears.end(), [&](const Linear& each) {
               return each.parameters == linear && this->*each.adapted;
           });
}

const Keys<Lora>& lora_keys() {
    static const Keys<Lora> keys = {
        count<&Lora::rank>("rank", "Rows of the first matrix, columns of the second").required(),
        number<&Lora::alpha>("alpha", "What adapters add is multiplied by alpha ÷ rank", kPositive),
        own<Lora>(kTargets, KeyType::list, "Linears of a layer that have adapters")
            .of_entries(KeyType::word)
            .of_words(linear_names())
            .written_by([](const KeySpec&, const Lora& from) {
                Json targets = Json::array();
                for (const Linear& linear : kLinears)
                    if (from.*linear.adapted) targets.push_back(linear.name);
                return targets;
            }),
    };
    return keys;
}

void read_lora(Reading& reading, Section& training, Lora& lora) {
    reading.remember("training.lora", training.pointer("lora"), "none");
    if (training.find("lora") == nullptr) return;
    Section section(reading, "/training/lora", "training.lora");
    read_keys(section, lora_keys(), lora);
    if (section.exists()) read_targets(reading, section, lora);
    section.finish();
}

void check_lora(Reading& reading, const Scenario& scenario) {
    const Lora& lora = scenario.training.lora;
    if (!lora.on() || !reading.good({"training.lora"})) return;
    check_parts(reading, scenario);
    if (!reading.good({"training.lora.rank", "model"})) return;
    const std::int64_t least = least_side(scenario.model, lora);
    if (lora.rank <= least) return;
    Diagnostic& fault = reading.report_field(
        "S037", "training.lora.rank", "the adapters have a higher rank than what they adapt");
    fault.arithmetic =
        fmt::format("rank = {}, the least side of an adapted matrix is {}", lora.rank, least);
    fault.help.push_back(fmt::format("a rank of at most {}", least));
}

}  // namespace orrery::plan
