// layout.recompute and what it is said of: which layers, or which modules of them.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr char kModules[] = "recompute_modules";
constexpr std::int64_t kEverySecondLayer = 2;  // torchtitan's selective_ac_option

// Whether a --set or a search chooses another kind of recomputation than the file that says what is
// at `pointer` of its own: that is moot then.
bool is_moot(const Reading& reading, const std::string& pointer) {
    const Document& document = reading.document();
    return document.set_by_itself("/layout/recompute") && !document.set_by_itself(pointer);
}

// A count of layers, for groups of layers alone also "sqrt".
bool read_recompute_every(Section& section, const std::string& at, const KeySpec& spec, Presence,
                          Layout& layout) {
    const bool layers = layout.recompute == Recompute::selective_layer;
    if (layers) layout.recompute_every = kEverySecondLayer;
    const bool read = layers ? section.integer(at, layout.recompute_every, spec.integers)
                             : section.integer_or_word(at, layout.recompute_every, spec.integers,
                                                       spec.words[0], 0);
    if (!read || !section.good("recompute") || layout.recompute == Recompute::every_k || layers)
        return read;
    if (is_moot(section.reading(), section.pointer(at))) {
        layout.recompute_every = 0;
        return read;
    }
    section.reading()
        .report("S029", section.pointer(at),
                "only \"recompute\": \"every_k\" forms groups of layers")
        .help.push_back("leave recompute_every out, or \"recompute\": \"every_k\"");
    return false;
}

struct ModuleName {
    std::string_view name;
    bool RecomputedModules::*module;
};
constexpr std::array kNames = {
    ModuleName{"core_attn", &RecomputedModules::core_attention},
    ModuleName{"layernorm", &RecomputedModules::norms},
    ModuleName{"mla_up_proj", &RecomputedModules::latent_up},
    ModuleName{"mlp", &RecomputedModules::mlp},
    ModuleName{"mlp_act", &RecomputedModules::activation},
    ModuleName{"moe", &RecomputedModules::experts},
    ModuleName{"moe_act", &RecomputedModules::expert_activation},
};

// Of Megatron-LM's modules those that are not made again by themselves here.
struct AbsentModule {
    std::string_view name;
    const char* why;
};
constexpr AbsentModule kAbsent[] = {
    {"shared_experts", "what all tokens go through is made again with the experts, by \"moe\""},
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
            return refuse("S034", fmt::format("the module {} is not made again by itself: {}", word,
                                              absent.why));
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
    else if (modules.experts && modules.expert_activation)
        reading.report("S034", pointer, "experts run again whole, their activation included")
            .help.push_back("\"moe\" or \"moe_act\"");
}

}  // namespace

std::vector<std::string_view> recomputed_module_names() {
    std::vector<std::string_view> names;
    for (const ModuleName& named : kNames)
        names.push_back(named.name);
    return names;
}

Keys<Layout> recompute_keys() {
    return {
        choice<&Layout::recompute>("recompute",
                                   "Which activations are let go in forward and made again in "
                                   "backward")
            .also({"recomputation", "recompute_granularity", "activation_checkpointing"}),
        count<&Layout::recompute_every>("recompute_every",
                                        "every_k: layers of a group that keeps its first one's "
                                        "input alone, \"sqrt\" the root of the stage's layers; "
                                        "selective_layer: one layer of so many, 2 unless given")
            .or_word("sqrt")
            .in("layers")
            .where("with \"recompute\": \"every_k\" or \"selective_layer\"")
            .read_by(read_recompute_every)
            .written_if([](const Layout& from) {
                return from.recompute == Recompute::every_k ||
                       from.recompute == Recompute::selective_layer;
            })
            .also({"recompute_num_layers"}),
        own<Layout>(kModules, KeyType::list,
                    "selective: modules of a layer that run again, under Megatron-LM's names")
            .of_entries(KeyType::word)
            .of_words(recomputed_module_names())
            .where("with \"recompute\": \"selective\"")
            .initially("[\"core_attn\"]")
            .written_by([](const KeySpec&, const Layout& from) {
                Json names = Json::array();
                for (const ModuleName& named : kNames)
                    if (from.recompute_modules.*named.module) names.push_back(named.name);
                return names;
            })
            .written_if(
                [](const Layout& from) { return from.recompute_modules != RecomputedModules{}; }),
    };
}

void read_recompute(Reading& reading, Section& section, Layout& layout) {
    const std::string pointer = section.pointer(kModules);
    reading.remember("layout.recompute_modules", pointer, "[\"core_attn\"]");
    const Json* value = section.find(kModules);
    if (value == nullptr) return;
    if (layout.recompute != Recompute::selective && is_moot(reading, pointer)) return;
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

}  // namespace orrery::plan
