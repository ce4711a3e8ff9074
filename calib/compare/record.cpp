#include "calib/compare/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace orrery::compare {
namespace {

using nlohmann::json;

// Thrown inside this file only: the reason why a record is skipped.
struct Skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::string shown(const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::int64_t whole(const json& object, const char* key, const char* of) {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null())
        throw Skip(fmt::format("{}.{} is not stated", of, key));
    if (!it->is_number_integer() || it->get<std::int64_t>() < 1)
        throw Skip(fmt::format("{}.{} is {}", of, key, it->dump()));
    return it->get<std::int64_t>();
}

std::int64_t whole_or(const json& object, const char* key, std::int64_t otherwise) {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return otherwise;
    if (!it->is_number_integer()) throw Skip(fmt::format("{} is {}", key, it->dump()));
    return it->get<std::int64_t>();
}

// Keys that the translation reads or that say nothing about the computation. Any other key of a
// record is a fact that the simulator would ignore, hence a reason to skip.
constexpr std::array kModelKeys = {
    "name",           "hidden",     "layers",  "heads",           "kv_heads",         "head_dim",
    "kv_channels",    "ffn_hidden", "seq_len", "vocab",           "gated_mlp",        "params_b",
    "params_printed", "mlp_ratio",  "dropout", "tied_embeddings", "untied_embeddings"};
constexpr std::array kLayoutKeys = {"tp",
                                    "pp",
                                    "dp",
                                    "cp",
                                    "ep",
                                    "vpp",
                                    "micro_batch",
                                    "global_batch",
                                    "num_microbatches",
                                    "grad_accum",
                                    "schedule",
                                    "sequence_parallel",
                                    "recompute",
                                    "zero_stage",
                                    "distributed_optimizer",
                                    "precision",
                                    "overlap",
                                    "framework",
                                    "attention",
                                    "global_batch_tokens"};

template <typename Keys>
void refuse_unread(const json& object, const Keys& keys, const char* of) {
    for (const auto& [key, value] : object.items()) {
        if (value.is_null() || value == false) continue;  // stated to be absent
        const bool stated_beside = key.size() > 7 && key.compare(key.size() - 7, 7, "_stated") == 0;
        if (stated_beside || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
        throw Skip(fmt::format("{}.{} = {} is not modelled", of, key, shown(value)));
    }
}

RecordModel read_model(const json& m) {
    refuse_unread(m, kModelKeys, "model");
    RecordModel model;
    model.hidden = whole(m, "hidden", "model");
    model.layers = whole(m, "layers", "model");
    model.heads = whole(m, "heads", "model");
    model.kv_heads = whole_or(m, "kv_heads", model.heads);
    model.head_dim =
        whole_or(m, "head_dim", whole_or(m, "kv_channels", model.hidden / model.heads));
    model.ffn_hidden = whole(m, "ffn_hidden", "model");
    model.vocabulary = whole(m, "vocab", "model");
    model.sequence = whole(m, "seq_len", "model");
    model.gated_mlp = m.value("gated_mlp", false);
    return model;
}

json model_part(const json& m, const RecordModel& model) {
    if (model.gated_mlp)
        return {{"model_type", "llama"},
                {"hidden_size", model.hidden},
                {"num_hidden_layers", model.layers},
                {"num_attention_heads", model.heads},
                {"num_key_value_heads", model.kv_heads},
                {"head_dim", model.head_dim},
                {"intermediate_size", model.ffn_hidden},
                {"vocab_size", model.vocabulary},
                {"max_position_embeddings", model.sequence},
                {"tie_word_embeddings", m.value("tied_embeddings", false)}};
    if (model.kv_heads != model.heads)
        throw Skip("grouped-query attention without a gated MLP is no family we know");
    if (model.head_dim * model.heads != model.hidden)
        throw Skip("heads × head_dim ≠ hidden without a gated MLP is no family we know");
    return {{"model_type", "gpt2"},
            {"n_embd", model.hidden},
            {"n_layer", model.layers},
            {"n_head", model.heads},
            {"n_inner", model.ffn_hidden},
            {"vocab_size", model.vocabulary},
            {"n_positions", model.sequence},
            {"resid_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"attn_pdrop", 0.0},
            {"tie_word_embeddings", !m.value("untied_embeddings", false)}};
}

json layout_part(const json& l, std::int64_t gpus) {
    refuse_unread(l, kLayoutKeys, "layout");
    json layout;
    layout["tensor_parallel"] = whole(l, "tp", "layout");
    layout["pipeline_parallel"] = whole(l, "pp", "layout");
    layout["data_parallel"] = whole(l, "dp", "layout");
    layout["micro_batch_size"] = whole(l, "micro_batch", "layout");
    layout["global_batch_size"] = whole(l, "global_batch", "layout");
    if (whole_or(l, "ep", 1) != 1) throw Skip("expert parallelism is not modelled yet");
    const std::int64_t pp = layout["pipeline_parallel"];
    const std::int64_t cp = whole_or(l, "cp", 1);
    if (cp > 1) layout["context_parallel"] = cp;
    const std::int64_t ranks = layout["tensor_parallel"].get<std::int64_t>() * pp * cp *
                               layout["data_parallel"].get<std::int64_t>();
    if (ranks != gpus)
        throw Skip(fmt::format("tp × pp × dp{} = {} but the run had {} GPUs", cp > 1 ? " × cp" : "",
                               ranks, gpus));
    const std::string schedule = l.value("schedule", "none");
    const std::int64_t vpp = whole_or(l, "vpp", 1);
    if (schedule == "none" && pp > 1) throw Skip("a pipeline without a schedule");
    if (schedule != "none" && schedule != "1f1b" && schedule != "interleaved")
        throw Skip("schedule " + schedule + " is not modelled yet");
    layout["schedule"] = pp > 1 && vpp > 1 ? "interleaved" : "1f1b";
    layout["virtual_pipeline"] = pp > 1 ? vpp : 1;
    const std::string recompute = l.value("recompute", "not stated");
    if (recompute != "none" && recompute != "full" && recompute != "selective")
        throw Skip("recompute " + recompute + " is not modelled yet");
    layout["recompute"] = recompute;
    layout["sequence_parallel"] = l.value("sequence_parallel", false);
    std::int64_t zero = whole_or(l, "zero_stage", 0);
    if (zero == 0 && l.value("distributed_optimizer", false)) zero = 1;
    layout["zero_stage"] = zero;
    return layout;
}

// Whether each condition of a rule holds: {"path": "/layout/precision", "equals": v | "contains": s
// | "absent": true}.
bool holds(const json& conditions, const json& record) {
    return std::all_of(conditions.begin(), conditions.end(), [&](const json& condition) {
        const json::json_pointer path(condition.at("path").get<std::string>());
        const bool present = record.contains(path) && !record.at(path).is_null();
        if (condition.contains("absent")) return present != condition.at("absent").get<bool>();
        if (!present) return false;
        const json& value = record.at(path);
        if (condition.contains("equals")) return value == condition.at("equals");
        return value.is_string() &&
               value.get<std::string>().find(condition.at("contains")) != std::string::npos;
    });
}

// The first rule of a list that holds, or nothing.
const json* first_rule(const json& rules, const json& record) {
    for (const json& rule : rules)
        if (holds(rule.at("when"), record)) return &rule;
    return nullptr;
}

json cluster_part(const json& record, const json& rules, std::int64_t gpus) {
    const std::string gpu = record.value("gpu", "");
    const auto device = rules.at("devices").find(gpu);
    if (device == rules.at("devices").end()) throw Skip("no profile for gpu " + gpu);
    const json* wiring = first_rule(rules.at("interconnects"), record);
    if (wiring == nullptr)
        throw Skip("no rule knows the interconnect \"" + record.value("interconnect", "") + "\"");
    const std::int64_t per_node = whole(record, "gpus_per_node", "record");
    json cluster = wiring->at("cluster");
    cluster["nodes"] = (gpus + per_node - 1) / per_node;
    cluster["devices_per_node"] = std::min(per_node, gpus);
    cluster["device"] = device->at("device");
    cluster["profile"] = device->at("profile");
    return cluster;
}

json training_part(const json& record, const json& rules, Translation& translation) {
    const std::string precision = record.at("layout").value("precision", "not_stated");
    const auto known = rules.at("precisions").find(precision);
    if (known == rules.at("precisions").end())
        throw Skip("precision " + precision + " is not modelled yet");
    const json* framework = first_rule(rules.at("frameworks"), record);
    if (framework == nullptr) throw Skip("no rule knows what software this ran");
    json training = framework->at("training");
    training["precision"] = known->at("as");
    training["sequence_length"] = translation.model.sequence;
    translation.framework = training.at("framework");
    for (const json& flag : rules.at("flags"))
        if (holds(flag.at("when"), record))
            for (const auto& [key, value] : flag.at("training").items())
                training[key] = value;
    return training;
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

Translation translate(const json& record, const json& rules) {
    Translation translation;
    try {
        const std::string task = record.at("layout").value("task", "pretrain");
        if (task != "pretrain") throw Skip("task " + task + " is not modelled");
        const std::int64_t gpus = whole(record, "gpus", "record");
        translation.model = read_model(record.at("model"));
        json scenario;
        scenario["model"] = model_part(record.at("model"), translation.model);
        scenario["layout"] = layout_part(record.at("layout"), gpus);
        scenario["cluster"] = cluster_part(record, rules, gpus);
        scenario["training"] = training_part(record, rules, translation);
        translation.scenario_json = scenario.dump(1);
    } catch (const Skip& skip) {
        translation.why = skip.what();
    } catch (const json::exception& fault) {
        translation.why = std::string("the record is not shaped as expected: ") + fault.what();
    }
    return translation;
}

}  // namespace orrery::compare
