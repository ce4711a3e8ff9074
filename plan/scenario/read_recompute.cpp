// layout.recompute and what it is said of: which layers, or which modules of them.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr char kModules[] = "recompute_modules";
constexpr std::int64_t kEverySecondLayer = 2;  // torchtitan's selective_ac_option

// A count of layers, for groups of layers alone also "sqrt".
void read_recompute_every(Reading& reading, Section& section, Layout& layout) {
    section.known("recompute_every");
    reading.remember("layout.recompute_every", section.pointer("recompute_every"), "\"sqrt\"");
    const Json* value = section.find("recompute_every");
    const bool layers = layout.recompute == Recompute::selective_layer;
    if (layers) layout.recompute_every = kEverySecondLayer;
    if (value == nullptr) return;
    if (value->is_number() || layers) {
        section.integer("recompute_every", layout.recompute_every);
    } else if (*value != "sqrt") {
        section.wrong_type("recompute_every", "a whole number or \"sqrt\"");
        return;
    }
    if (!reading.good({"layout.recompute"}) || layout.recompute == Recompute::every_k || layers)
        return;
    reading
        .report("S029", section.pointer("recompute_every"),
                "only \"recompute\": \"every_k\" forms groups of layers")
        .help.push_back("leave recompute_every out, or \"recompute\": \"every_k\"");
}

struct ModuleName {
    std::string_view name;
    bool RecomputedModules::*module;
};
constexpr std::array kNames = {
    ModuleName{"core_attn", &RecomputedModules::core_attention},
    ModuleName{"layernorm", &RecomputedModules::norms},
    ModuleName{"mlp", &RecomputedModules::mlp},
    ModuleName{"mlp_act", &RecomputedModules::activation},
};

// Of Megatron-LM's modules those that no layer here has.
struct AbsentModule {
    std::string_view name;
    const char* why;
};
constexpr AbsentModule kAbsent[] = {
    {"moe", "a layer of experts, which is not modelled, would have it"},
    {"moe_act", "a layer of experts, which is not modelled, would have it"},
    {"shared_experts", "a layer of experts, which is not modelled, would have it"},
    {"mla_up_proj", "latent attention, which is not modelled, would have it"},
};

std::string names_shown() {
    std::string all;
    for (std::size_t i = 0; i < kNames.size(); ++i)
        all += fmt::format("{}\"{}\"",
                           i == 0                  ? ""
                           : i + 1 < kNames.size() ? ", "
                                                   : " or ",
                           kNames[i].name);
    return all;
}

void read_module(Reading& reading, const std::string& pointer, const Json& value,
                 RecomputedModules& modules) {
    const auto refuse = [&](const char* code, const std::string& message) {
        reading.report(code, pointer, message).help.push_back(names_shown());
    };
    if (!value.is_string()) return refuse("S006", "a module of a layer is a word");
    const auto& word = value.get_ref<const std::string&>();
    for (const AbsentModule& absent : kAbsent)
        if (word == absent.name)
            return refuse("S034", fmt::format("no layer has the module {}: {}", word, absent.why));
    for (const ModuleName& named : kNames) {
        if (word != named.name) continue;
        modules.*named.module = true;
        return;
    }
    refuse("S008", fmt::format("a layer has no module \"{}\"", word));
}

void check_modules(Reading& reading, const std::string& pointer, const Layout& layout) {
    if (!reading.good_at(pointer)) return;
    const RecomputedModules& modules = layout.recompute_modules;
    if (reading.good({"layout.recompute"}) && layout.recompute != Recompute::selective)
        reading
            .report("S034", pointer, "only \"recompute\": \"selective\" chooses modules of a layer")
            .help.push_back("leave recompute_modules out, or \"recompute\": \"selective\"");
    else if (modules == RecomputedModules{false})
        reading.report("S034", pointer, "nothing is chosen to be made again")
            .help.push_back("\"recompute\": \"none\", or some of " + names_shown());
    else if (modules.mlp && modules.activation)
        reading.report("S034", pointer, "the MLP runs again whole, its activation included")
            .help.push_back("\"mlp\" or \"mlp_act\"");
}

}  // namespace

void read_recompute(Reading& reading, Section& section, Layout& layout) {
    section.choice<Recompute>("recompute", layout.recompute,
                              {{"none", Recompute::none},
                               {"selective", Recompute::selective},
                               {"selective_op", Recompute::selective_op},
                               {"selective_layer", Recompute::selective_layer},
                               {"full", Recompute::full},
                               {"every_k", Recompute::every_k}});
    read_recompute_every(reading, section, layout);
    section.known(kModules);
    const std::string pointer = section.pointer(kModules);
    reading.remember("layout.recompute_modules", pointer, "[\"core_attn\"]");
    const Json* value = section.find(kModules);
    if (value == nullptr) return;
    if (!value->is_array()) {
        section.wrong_type(kModules, "an array of modules");
        return;
    }
    layout.recompute_modules = RecomputedModules{false};
    for (std::size_t i = 0; i < value->size(); ++i)
        read_module(reading, fmt::format("{}/{}", pointer, i), (*value)[i],
                    layout.recompute_modules);
    check_modules(reading, pointer, layout);
}

Json modules_json(const RecomputedModules& modules) {
    Json names = Json::array();
    for (const ModuleName& named : kNames)
        if (modules.*named.module) names.push_back(named.name);
    return names;
}

}  // namespace orrery::plan
