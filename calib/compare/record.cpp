#include "calib/compare/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "calib/compare/record_experts.hpp"
#include "calib/compare/record_fabric.hpp"
#include "calib/compare/record_layout.hpp"
#include "calib/compare/record_rules.hpp"
#include "calib/compare/record_slice.hpp"
#include "calib/compare/record_words.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

// Keys that the translation itself reads. Any other that a record states must be known to a rule
// that holds, or to the rules' list of keys without effect on a step.
constexpr std::array kModelKeys = {
    "hidden",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "kv_channels",
    "ffn_hidden",
    "mlp_ratio",
    "gated_mlp",
    "seq_len",
    "squared_relu",
    "normalization",
    "bias_linear",
    "qkv_bias",
    "position",
    "vocab",
    "tied_embeddings",
    "untied_embeddings",
    "experts",
    "topk",
    "moe_ffn_hidden",
    "shared_experts",
    "shared_expert_ffn",
    "moe_layer_freq",
    "first_dense_layers",
    "qk_norm",
    "mla",
    "mtp_layers",
    "family",
};
constexpr std::array kLayoutKeys = {
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "etp",
    "vpp",
    "micro_batch",
    "grad_accum",
    "num_microbatches",
    "global_batch",
    "schedule",
    "recompute",
    "recompute_modules",
    "sequence_parallel",
    "zero_stage",
    "precision",
    "task",
    "distributed_optimizer",
    "fsdp_shard_group",
    "zero1_shard_group",
    "layers_per_stage",
};

// Of a key that holds several facts: each is absent, or known to a rule.
bool all_settled(const json& facts, const std::string& path, const RecordRules& asked) {
    for (const auto& item : facts.items())
        if (item.value() != false && !asked.settled(path + '/' + item.key())) return false;
    return true;
}

// A switch of the software or free text that no rule knows: named, and what such switches do
// widens the interval. A number may be a degree, and some words are of another run.
bool take_word(const std::string& key, const json& value, const json& words,
               Translation& translation) {
    std::string text = key;
    const json list = value.is_array() ? value : json::array({value});
    for (const json& one : list) {
        if (!one.is_string() && !one.is_boolean()) return false;
        if (one.is_string() && number_in(one.get<std::string>(), 1000)) return false;
        text += ' ' + shown(one);
    }
    for (const json& word : words.at("physics"))
        if (holds_words(text, word.get<std::string>())) return false;
    translation.assumed.push_back(
        fmt::format("{} \"{}\": {}", key, shown(value), words.at("what").get<std::string>()));
    for (const json& other : words.at("otherwise"))
        translation.otherwise.push_back(other.dump());
    return true;
}

template <typename Keys>
void refuse_unread(const json& record, const char* of, const Keys& keys, const RecordRules& asked,
                   const json& rules, Translation& translation) {
    const json& without_effect = rules.at("without_effect");
    const bool of_layout = std::string_view(of) == "layout";
    for (const auto& [key, value] : record.at(of).items()) {
        if (value.is_null() || value == false) continue;  // stated to be absent
        const bool stated_beside = key.size() > 7 && key.compare(key.size() - 7, 7, "_stated") == 0;
        const std::string path = fmt::format("/{}/{}", of, key);
        if (stated_beside || std::find(keys.begin(), keys.end(), key) != keys.end() ||
            without_effect.at(of).contains(key) || asked.settled(path))
            continue;
        if (value.is_object() && all_settled(value, path, asked)) continue;
        if (of_layout && take_word(key, value, rules.at("default_words"), translation)) continue;
        throw Skip(fmt::format("{}.{} = {} is not modelled", of, key, shown(value)));
    }
}

// The default for a fact, which the translation names; null where no rule has one.
const json* by_default(const char* list, RecordRules& asked, Translation& translation) {
    const json* rule = asked.first(list);
    if (rule == nullptr) return nullptr;
    translation.assumed.push_back(rule->at("what"));
    for (const json& other : rule->at("otherwise"))
        translation.otherwise.push_back(other.dump());
    return rule;
}

bool says_interconnect(const json& record) {
    return states(record, "interconnect") &&
           !same_word(shown(record.at("interconnect")), "not stated");
}

// What cluster nodes of this GPU usually have between them, where the record states no more of it.
json usual_fabric(const json& record, const json& rules, std::int64_t per_node,
                  Translation& translation) {
    json unsaid = record;
    unsaid.erase("interconnect");
    RecordRules asked(rules, unsaid);
    const json* usual = asked.first("interconnects");
    const std::string stated = shown(record.value("interconnect", json()));
    if (usual == nullptr) throw Skip(fmt::format("no rule knows the interconnect \"{}\"", stated));
    const std::optional<Fabric> read = read_fabric(stated, per_node);
    json wiring = *usual;
    if (read) {
        wiring["cluster"]["inter_node"].merge_patch({{"kind", read->kind},
                                                     {"nics_per_node", read->nics_per_node},
                                                     {"bandwidth_Gbps", read->bandwidth_Gbps}});
        return wiring;
    }
    const double usual_Gbps = usual->at("cluster").at("inter_node").at("bandwidth_Gbps");
    const std::string said = says_interconnect(record) ? fmt::format(" \"{}\"", stated) : "";
    translation.assumed.push_back(
        fmt::format("interconnect{}: {}", said, usual->at("source").get<std::string>()));
    // Clouds have a quarter of it: p4d.24xlarge 400 Gb/s beside A100, a3-highgpu-8g 800 to 1,000
    // beside H100; measured fabrics reach no less of theirs.
    for (const double factor : {0.25, 2.0}) {
        const json other = {
            {"cluster", {{"inter_node", {{"bandwidth_Gbps", usual_Gbps * factor}}}}}};
        translation.otherwise.push_back(other.dump());
    }
    return wiring;
}

// Devices of a node; of one that nobody describes eight, or all of a smaller run.
std::int64_t devices_of_node(const json& record, std::int64_t gpus, Translation& translation) {
    constexpr std::int64_t kUsual = 8;
    if (states(record, "gpus_per_node")) return whole(record, "gpus_per_node", "record");
    if (gpus > kUsual) translation.assumed.emplace_back("nodes: of eight GPUs");
    return std::min(gpus, kUsual);
}

json cluster_part(const json& record, const json& rules, RecordRules& asked, std::int64_t gpus,
                  Translation& translation) {
    const std::string gpu = record.value("gpu", "not stated");
    const auto device = rules.at("devices").find(gpu);
    if (device == rules.at("devices").end()) throw Skip("no profile for gpu " + gpu);
    if (device->contains("skip")) throw Skip(device->at("skip").get<std::string>());
    std::int64_t per_node = devices_of_node(record, gpus, translation);
    json cluster = {{"intra_node", device->at("intra_node")}};
    const auto torus = device->find("torus");
    const json* wiring = asked.first("interconnects");
    json usual;
    // Within one node, or one domain of several, there is no network to know.
    const bool one_domain = wiring != nullptr && wiring->value("nvlink_domain", 0) >= gpus;
    if ((wiring == nullptr || !says_interconnect(record)) && gpus > per_node && !one_domain) {
        usual = usual_fabric(record, rules, per_node, translation);
        wiring = &usual;
    }
    if (wiring != nullptr) cluster.merge_patch(wiring->at("cluster"));
    // One NVLink domain may hold many hosts; of a larger run each domain is filled
    // alike, and has an adapter per GPU.
    if (wiring != nullptr && wiring->contains("nvlink_domain")) {
        const std::string words = shown(record.value("interconnect", json()));
        const std::int64_t domain =
            torus == device->end() ? wiring->at("nvlink_domain").get<std::int64_t>()
                                   : chips_of_slice(words).value_or(wiring->at("nvlink_domain")) *
                                         torus->value("devices_per_chip", std::int64_t{1});
        per_node = gpus;
        for (std::int64_t parts = 1; per_node > domain; ++parts)
            per_node = gpus % parts == 0 ? gpus / parts : per_node;
        cluster["inter_node"]["nics_per_node"] = per_node;
    }
    cluster["nodes"] = (gpus + per_node - 1) / per_node;
    cluster["devices_per_node"] = std::min(per_node, gpus);
    if (torus != device->end())
        cluster["intra_node"].merge_patch(torus_of_slice(
            *torus, shown(record.value("interconnect", json())), std::min(per_node, gpus),
            whole_or(record.at("layout"), "tp", "layout", 1)));
    cluster["device"] = device->at("device");
    cluster["profile"] = device->at("profile");
    return cluster;
}

json training_part(const json& layout, const json& rules, RecordRules& asked,
                   Translation& translation) {
    const std::string precision = layout.value("precision", "not_stated");
    const json& precisions = rules.at("precisions");
    auto known = precisions.find(precision);
    if (same_word(precision, "not stated"))
        if (const json* usual = by_default("default_precisions", asked, translation))
            known = precisions.find(usual->at("precision").get<std::string>());
    if (known == precisions.end()) throw Skip("precision " + precision + " is not modelled");
    if (known->contains("skip")) throw Skip(known->at("skip").get<std::string>());
    const json* framework = asked.first("frameworks");
    asked.fact("/layout/framework");
    if (framework == nullptr) framework = by_default("default_frameworks", asked, translation);
    if (framework == nullptr) throw Skip("no rule knows what software this ran");
    json training = framework->at("training");
    training.update(known->at("training"));
    training["sequence_length"] = translation.model.sequence;
    translation.framework = training.at("framework");
    return training;
}

// Facts that rules add to those of a record, before these are read; their paths join `known`.
json with_facts(const json& record, const char* of, RecordRules& asked,
                std::set<std::string>& known) {
    json stated = record.at(of);
    for (auto it = stated.begin(); it != stated.end();)
        it = it->is_null() ? stated.erase(it) : std::next(it);
    for (const json* rule : asked.all("facts"))
        if (rule->contains(of))
            for (const auto& [key, value] : rule->at(of).items()) {
                stated[key] = value;
                if (!value.is_null()) known.insert(fmt::format("/{}/{}", of, key));
            }
    return stated;
}

// What a default says of facts that no rule knows; whether it says anything of such.
bool take_default(const json& rule, const char* of, const std::set<std::string>& known,
                  json& stated) {
    if (!rule.contains(of)) return false;
    bool taken = false;
    for (const auto& [key, value] : rule.at(of).items()) {
        if (known.count(fmt::format("/{}/{}", of, key)) > 0) continue;
        stated[key] = value;
        taken = true;
    }
    return taken;
}

// What stands for facts that the record leaves unsaid, named as defaults.
void take_defaults(RecordRules& asked, const std::set<std::string>& known, json& model,
                   json& layout, Translation& translation) {
    for (const json* rule : asked.all("default_facts")) {
        const bool of_model = take_default(*rule, "model", known, model);
        const bool of_layout = take_default(*rule, "layout", known, layout);
        const bool fills = rule->contains("model") || rule->contains("layout");
        if (fills && !of_model && !of_layout) continue;
        translation.assumed.push_back(rule->at("what"));
        for (const json& other : rule->at("otherwise"))
            translation.otherwise.push_back(other.dump());
    }
}

// Devices of the run: what its source counts as GPUs may hold several. Their number is what a rule
// makes of other facts where it is not stated.
std::int64_t devices_of(const json& record, RecordRules& asked, Translation& translation) {
    if (!states(record, "gpus"))
        if (const json* inferred = by_default("default_gpus", asked, translation))
            return inferred->at("gpus").get<std::int64_t>();
    return whole(record, "gpus", "record") * whole_or(record, "devices_per_gpu", "record", 1);
}

// Attention by single operations that multiplies into a buffer which stays from layer to layer: a
// 16-bit score of each pair of positions, beside the workspaces of products.
void keep_scores(const RecordModel& model, json& scenario) {
    const json& layout = scenario.at("layout");
    const double sequences = layout.at("micro_batch_size"), ranks = layout.at("tensor_parallel"),
                 positions = static_cast<double>(model.sequence);
    const double scores =
        sequences * static_cast<double>(model.heads) / ranks * positions * positions;
    json& workspace = scenario.at("training").at("workspace_mb");
    workspace = workspace.get<double>() + 2e-6 * scores;
}

void take_flags(RecordRules& asked, json& scenario, json& profile) {
    for (const json* flag : asked.all("flags")) {
        for (const char* part : {"model", "layout", "cluster", "training"})
            if (flag->contains(part)) scenario[part].merge_patch(flag->at(part));
        if (flag->contains("profile")) profile.update(flag->at("profile"));
    }
}

void leave_out(RecordRules& asked, json& scenario, json& profile, Translation& translation) {
    for (const json* rule : asked.all("left_out")) {
        for (const char* part : {"cluster", "training"})
            if (rule->contains(part)) scenario[part].merge_patch(rule->at(part));
        if (rule->contains("profile")) profile.update(rule->at("profile"));
        translation.left_out.push_back(rule->at("what"));
    }
}

json scenario_of(const json& record, const json& rules, Fitted fitted, Translation& translation) {
    RecordRules asked(rules, record, fitted == Fitted::other_sources);
    asked.all("refused");
    const std::int64_t gpus = devices_of(record, asked, translation);
    std::set<std::string> known;
    json stated_model = with_facts(record, "model", asked, known);
    json stated_layout = with_facts(record, "layout", asked, known);
    take_defaults(asked, known, stated_model, stated_layout, translation);
    take_stage_letters(record, stated_model, stated_layout);
    if (same_word(stated_layout.value("recompute", "not stated"), "not stated"))
        if (const json* usual = by_default("default_recomputations", asked, translation)) {
            stated_layout["recompute"] = usual->at("recompute");
            for (const json& other : usual->at("where_that_does_not_fit"))
                translation.smaller.push_back(
                    {usual->at("what"), other.at("what"), other.at("scenario").dump()});
        }
    translation.model = read_record_model(stated_model, rules.at("vocabularies"));
    json scenario;
    scenario["model"] = states(stated_model, "family")
                            ? family_part(stated_model, translation.model)
                            : model_part(stated_model, translation.model);
    scenario["layout"] = layout_part(stated_layout, translation.model.layers, gpus);
    if (!states(stated_layout, "layers_per_stage") &&
        scenario["layout"].contains("layers_per_stage"))
        translation.assumed.emplace_back(
            "stages: as equal as whole layers go, embedding and head as one each where that is "
            "even");
    add_latents(stated_model, record.value("arguments", json()), scenario["model"]);
    if (states(stated_model, "experts")) {
        if (!states(stated_model, "family")) add_experts(stated_model, scenario["model"]);
        add_expert_degrees(stated_layout, scenario["layout"]);
    }
    scenario["cluster"] = cluster_part(record, rules, asked, gpus, translation);
    scenario["training"] = training_part(stated_layout, rules, asked, translation);
    json profile = json::object();  // places and values that stand in it then
    take_flags(asked, scenario, profile);
    if (asked.first("kept_scores") != nullptr) keep_scores(translation.model, scenario);
    for (const auto& [path, key] : rules.at("taken").items())
        if (const json* fact = asked.fact(path))
            scenario[json::json_pointer(key.get<std::string>())] = *fact;
    if (fitted == Fitted::other_sources) leave_out(asked, scenario, profile, translation);
    if (!profile.empty()) translation.profile_patch = profile.dump();
    refuse_unread(record, "model", kModelKeys, asked, rules, translation);
    refuse_unread(record, "layout", kLayoutKeys, asked, rules, translation);
    translation.global_batch = scenario.at("layout").at("global_batch_size");
    return scenario;
}

}  // namespace

std::optional<double> measured_step_s(const json& record) {
    for (const char* part : {"measured", "derived"}) {
        const auto it = record.find(part);
        if (it == record.end() || !it->is_object()) continue;
        const auto time = it->find("step_time_s");
        if (time != it->end() && time->is_number() && time->get<double>() > 0)
            return time->get<double>();
    }
    return std::nullopt;
}

Translation translate(const json& record, const json& rules, Fitted fitted) {
    Translation translation;
    try {
        translation.scenario_json =
            scenario_of(read_by_meaning(record, rules), rules, fitted, translation).dump(1);
    } catch (const Skip& skip) {
        translation.why = skip.what();
    } catch (const json::exception& fault) {
        translation.why = std::string("the record is not shaped as expected: ") + fault.what();
    }
    return translation;
}

}  // namespace orrery::compare
