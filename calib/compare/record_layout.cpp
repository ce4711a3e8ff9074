#include "calib/compare/record_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "calib/compare/record_rules.hpp"
#include "plan/scenario/import/stage_layout.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

struct Degrees {
    std::int64_t tensor = 1, pipeline = 1, context = 1, data = 1;
};

Degrees degrees_of(const json& l, std::int64_t gpus) {
    Degrees d;
    d.tensor = whole(l, "tp", "layout");
    d.pipeline = whole(l, "pp", "layout");
    d.context = whole_or(l, "cp", "layout", 1);
    const std::int64_t model = d.tensor * d.pipeline * d.context;
    if (!states(l, "dp") && gpus % model == 0) {
        d.data = gpus / model;
        return d;
    }
    d.data = whole(l, "dp", "layout");
    if (model * d.data == gpus) return d;
    throw Skip(fmt::format("tp × pp × cp × dp = {} × {} × {} × {} = {} but the run had {} GPUs",
                           d.tensor, d.pipeline, d.context, d.data, model * d.data, gpus));
}

// The batch, or what it is the product of.
std::int64_t global_batch_of(const json& l, std::int64_t micro_batch, std::int64_t data) {
    for (const char* count : {"grad_accum", "num_microbatches"})
        if (!states(l, "global_batch") && states(l, count))
            return micro_batch * data * whole(l, count, "layout");
    return whole(l, "global_batch", "layout");
}

// A number; or "all at once": no gradient is accumulated, as compilers of whole steps have it; or
// what follows from how many there are.
std::int64_t micro_batch_of(const json& l, std::int64_t data) {
    std::int64_t count = 1;
    if (l.value("micro_batch", json()) != "all at once") {
        const char* key = states(l, "grad_accum") ? "grad_accum" : "num_microbatches";
        if (states(l, "micro_batch") || !states(l, key)) return whole(l, "micro_batch", "layout");
        count = whole(l, key, "layout");
    }
    const std::int64_t batch = whole(l, "global_batch", "layout");
    if (batch % data == 0 && batch / data % count == 0) return batch / data / count;
    throw Skip(fmt::format("a batch of {} does not part into {} micro-batches of {} ranks", batch,
                           count, data));
}

// Layers of each of `chunks` where embedding and head count as a layer each on theirs.
std::vector<std::int64_t> with_ends_counted(std::int64_t layers, std::int64_t chunks) {
    if ((layers + 2) % chunks != 0)
        throw Skip(fmt::format(
            "{} layers, an embedding and a head do not part into {} equal stages", layers, chunks));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks), (layers + 2) / chunks);
    --counts.front();
    --counts.back();
    return counts;
}

// As equal as whole layers go, the first chunks one more (DeepSpeed's partition_uniform).
std::vector<std::int64_t> as_equal_as_whole(std::int64_t layers, std::int64_t chunks) {
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; i < chunks; ++i)
        counts.push_back(layers / chunks + (i < layers % chunks ? 1 : 0));
    return counts;
}

const std::map<std::string, std::string>& schedules() {
    static const std::map<std::string, std::string> known = {
        {"1f1b", "1f1b"},   {"interleaved", "interleaved"}, {"zb-1p", "zb-h1"},
        {"zb-2p", "zb-2p"}, {"v-half", "v-half"},           {"dualpipe", "dualpipe-v"},
    };
    return known;
}

void take_schedule(const json& l, const Degrees& d, json& layout) {
    if (d.pipeline == 1) return;
    const std::string stated = l.value("schedule", "not_stated");
    const auto known = schedules().find(stated);
    if (known == schedules().end()) {
        if (stated == "none") throw Skip("a pipeline without a schedule");
        throw Skip(fmt::format("schedule {} of a pipeline", stated));
    }
    const std::int64_t chunks = whole_or(l, "vpp", "layout", 1);
    layout["schedule"] = known->second;
    if (stated == "1f1b" && chunks > 1) layout["schedule"] = "interleaved";
    if (stated == "interleaved" && chunks == 1) {
        if (!states(l, "vpp"))
            throw Skip("an interleaved schedule whose virtual stages are not stated");
        layout["schedule"] = "1f1b";
    }
    const bool two_chunks = known->second == "v-half" || known->second == "dualpipe-v";
    layout["virtual_pipeline"] = two_chunks ? 2 : chunks;
}

// Modules by the names that sources give them; one that is not modelled is refused, by name.
void take_modules(const json& l, json& layout) {
    static const std::map<std::string, std::string> known = {
        {"core_attn", "core_attn"},
        {"layernorm", "layernorm"},
        {"norm", "layernorm"},
        {"mlp", "mlp"},
        {"ffn", "mlp"},
        {"swiglu", "mlp_act"},
        {"mlp_act", "mlp_act"},
        {"moe", "moe"},
        {"moe_act", "moe_act"},
        {"mla_up_proj", "mla_up_proj"},
    };
    const json stated = l.value("recompute_modules", json());
    if (!stated.is_array()) throw Skip("recomputation of single modules, which are not stated");
    layout["recompute"] = "selective";
    layout["recompute_modules"] = json::array();
    for (const json& module : stated) {
        const auto found = known.find(shown(module));
        if (found == known.end())
            throw Skip(
                fmt::format("recomputation of the module {} is not modelled", shown(module)));
        layout["recompute_modules"].push_back(found->second);
    }
}

void take_recomputation(const json& l, json& layout) {
    const std::string stated = l.value("recompute", "not_stated");
    if (stated == "modules") return take_modules(l, layout);
    static const std::map<std::string, std::string> known = {
        {"none", "none"},
        {"full", "full"},
        {"selective", "selective"},
        {"selective_ops", "selective_op"},
        {"selective_layers", "selective_layer"},
    };
    const auto found = known.find(stated);
    if (found == known.end()) throw Skip(fmt::format("recompute {} is not modelled", stated));
    layout["recompute"] = found->second;
}

void take_sharding(const json& l, const Degrees& d, json& layout) {
    std::int64_t stage = 0;
    if (states(l, "zero_stage")) stage = l.at("zero_stage").get<std::int64_t>();
    if (stage == 0 && l.value("distributed_optimizer", false)) stage = 1;
    layout["zero_stage"] = stage;
    for (const char* key : {"fsdp_shard_group", "zero1_shard_group"})
        if (states(l, key)) {
            const std::int64_t group = whole(l, key, "layout");
            if (stage > 0 && group < d.data * d.context) layout["zero_group_size"] = group;
        }
}

// As many for each stage as would be enough for all; what is missing then the last one has less,
// and beyond that the first.
json last_takes_the_rest(std::int64_t layers, std::int64_t chunks) {
    const std::int64_t each = (layers + chunks - 1) / chunks, rest = layers - each * (chunks - 1);
    if (rest < -each) throw Skip(fmt::format("{} layers leave none for the last stages", layers));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks), each);
    counts.back() = std::max<std::int64_t>(0, rest);
    counts.front() += std::min<std::int64_t>(0, rest);
    return counts;
}

void take_vocabulary(const json& l, json& layout) {
    const std::string stated = l.value("vocabulary_variant", "baseline");
    if (stated != "baseline") layout["vocabulary_parallel"] = stated;
}

void take_split(const json& l, std::int64_t layers, json& layout) {
    const std::int64_t chunks = layout.at("pipeline_parallel").get<std::int64_t>() *
                                layout.value("virtual_pipeline", std::int64_t{1});
    const bool even = layers % chunks == 0;
    if (!states(l, "layers_per_stage")) {
        if (even) return;
        layout["layers_per_stage"] = (layers + 2) % chunks == 0 ? with_ends_counted(layers, chunks)
                                                                : as_equal_as_whole(layers, chunks);
        return;
    }
    const json& split = l.at("layers_per_stage");
    if (split.is_array())
        layout["layers_per_stage"] = split;
    else if (split == "ends counted" || (split == "even or ends counted" && !even))
        layout["layers_per_stage"] = with_ends_counted(layers, chunks);
    else if (split == "as equal as whole")
        layout["layers_per_stage"] = as_equal_as_whole(layers, chunks);
    else if (split == "last takes the rest")
        layout["layers_per_stage"] = last_takes_the_rest(layers, chunks);
    else if (split != "even" && split != "even or ends counted")
        throw Skip(fmt::format("layers_per_stage = {} is not modelled", shown(split)));
}

// Megatron-LM's stages by letters, from a recipe or a test's arguments; null where it has none.
json stage_letters(const json& record) {
    struct Place {
        const char *part, *key;
    };
    constexpr Place kPlaces[] = {{"arguments", "pipeline-model-parallel-layout"},
                                 {"recipe", "pipeline_layout"}};
    for (const Place& place : kPlaces) {
        const json part = record.value(place.part, json());
        if (part.is_object() && states(part, place.key)) return part.at(place.key);
    }
    return {};
}

}  // namespace

void take_stage_letters(const json& record, const json& model, json& layout) {
    const json letters = stage_letters(record);
    if (letters.is_null()) return;
    const auto read = letters.is_string()
                          ? plan::imports::read_stage_layout(letters.get<std::string>())
                          : std::nullopt;
    if (!read) throw Skip(fmt::format("stages {} are not read", shown(letters)));
    const auto stages = static_cast<std::int64_t>(read->layers.size());
    const std::int64_t pipeline = whole(layout, "pp", "layout"),
                       layers = whole(model, "layers", "model"),
                       further = whole_or(model, "mtp_layers", "model", 0),
                       held = std::accumulate(read->layers.begin(), read->layers.end(),
                                              std::int64_t{0});
    if (stages % pipeline != 0 || held != layers || read->mtp_layers != further)
        throw Skip(fmt::format(
            "stages {} are {} of {} layers and {} for further tokens: {}, {} and {} are stated",
            shown(letters), stages, held, read->mtp_layers, pipeline, layers, further));
    layout["layers_per_stage"] = read->layers;
    layout["vpp"] = stages / pipeline;
}

json layout_part(const json& l, std::int64_t layers, std::int64_t gpus) {
    const Degrees d = degrees_of(l, gpus);
    json layout;
    layout["tensor_parallel"] = d.tensor;
    layout["pipeline_parallel"] = d.pipeline;
    layout["context_parallel"] = d.context;
    layout["data_parallel"] = d.data;
    const std::int64_t micro_batch = micro_batch_of(l, d.data);
    layout["micro_batch_size"] = micro_batch;
    layout["global_batch_size"] = global_batch_of(l, micro_batch, d.data);
    layout["sequence_parallel"] = d.tensor > 1 && l.value("sequence_parallel", false);
    take_schedule(l, d, layout);
    take_recomputation(l, layout);
    take_sharding(l, d, layout);
    take_vocabulary(l, layout);
    take_split(l, layers, layout);
    return layout;
}

}  // namespace orrery::compare
