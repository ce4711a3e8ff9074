// Degrees, stages, sharding and recomputation of a Megatron-LM command line.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/import/launch.hpp"
#include "plan/scenario/import/megatron_parts.hpp"
#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/stage_layout.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan::imports {
namespace {

using Count = std::optional<std::int64_t>;

Ranks ranks_of(Sheet& sheet, const Wishes& wishes) {
    const Launched launched = launched_ranks(sheet);
    if (wishes.gpus) return {wishes.gpus, "--gpus", ""};
    if (launched.ranks) return {launched.ranks, launched.from, ""};
    if (launched.unsettled)
        return {{}, "", fmt::format("{} is not settled in this file", launched.from)};
    return {{}, "", "no launcher here says how many ranks there are"};
}

void map_context(Sheet& sheet, const MegatronFacts& facts) {
    const Setting* said = sheet.find({"--cp-comm-type"});
    if (facts.context == 1) {
        sheet.ignore("--cp-comm-type", "at context-parallel size 1 it changes nothing");
        return;
    }
    // A list has one word for each layer.
    Json word = said == nullptr ? Json("p2p") : said->value;
    if (word.is_array() &&
        std::all_of(word.begin(), word.end(), [&](const Json& each) { return each == word[0]; }))
        word = Json(word[0]);
    const auto put = [&](const char* algorithm) {
        if (said == nullptr)
            sheet.put_usual("layout.context_algorithm", algorithm, "--cp-comm-type");
        else
            sheet.put("layout.context_algorithm", algorithm, "--cp-comm-type");
    };
    if (word == "p2p")
        put("ring");
    else if (word == "all_gather" || word == "allgather")
        put("all_gather");
    else if (word == "a2a")
        put("all_to_all");
    else
        sheet.refuse("--cp-comm-type", "one of p2p, a2a and all_gather for all layers");
}

constexpr const char* kStageLayout = "--pipeline-model-parallel-layout";

// What a text by letters says of all stages; nothing where it says nothing that a layout here has.
std::optional<std::vector<std::int64_t>> stages_by_letters(Sheet& sheet,
                                                           const MegatronFacts& facts) {
    const std::optional<std::string> text = sheet.text({kStageLayout});
    if (!text) return std::nullopt;
    const std::optional<StageLayout> layout = read_stage_layout(*text);
    if (!layout) {
        sheet.refuse(kStageLayout,
                     "stages with the embedding first, multi-token prediction and the loss last: "
                     "give layout.layers_per_stage");
        return std::nullopt;
    }
    const auto stages = static_cast<std::int64_t>(layout->layers.size());
    const std::int64_t layers =
        std::accumulate(layout->layers.begin(), layout->layers.end(), std::int64_t{0});
    if (stages % facts.pipeline == 0 && layers == facts.layers.value_or(layers) &&
        layout->mtp_layers == facts.mtp_layers)
        return layout->layers;
    sheet.report("I004", kStageLayout, "the layers do not split into such stages")
        .arithmetic = fmt::format(
        "{} stages, {} layers and {} that predict further tokens, of pipeline {}, {} layers and "
        "{}",
        stages, layers, layout->mtp_layers, facts.pipeline, facts.layers.value_or(layers),
        facts.mtp_layers);
    return std::nullopt;
}

// Virtual stages of a rank, by either of the two options.
std::int64_t chunks_of(Sheet& sheet, const MegatronFacts& facts) {
    const Count each = sheet.whole({"--num-layers-per-virtual-pipeline-stage"});
    const Count chunks = sheet.whole({"--num-virtual-stages-per-pipeline-rank"});
    if (each && chunks) {
        sheet.report("I004", "--num-virtual-stages-per-pipeline-rank",
                     "--num-virtual-stages-per-pipeline-rank and "
                     "--num-layers-per-virtual-pipeline-stage exclude each other");
        return 1;
    }
    if (chunks) {
        sheet.put("layout.virtual_pipeline", *chunks, "--num-virtual-stages-per-pipeline-rank");
        return std::clamp<std::int64_t>(*chunks, 1, 10'000);
    }
    if (!each) return 1;
    if (!facts.layers || *each < 1 || *facts.layers % (facts.pipeline * *each) != 0) {
        sheet
            .report("I004", "--num-layers-per-virtual-pipeline-stage",
                    "the layers do not split into such stages")
            .arithmetic = fmt::format(
            "layers / (pipeline × layers of a virtual stage) = {} / ({} × {}){}",
            facts.layers.value_or(0), facts.pipeline, *each,
            *each < 1 ? "" : " = " + quotient(facts.layers.value_or(0), facts.pipeline * *each));
        return 1;
    }
    const std::int64_t v = *facts.layers / (facts.pipeline * *each);
    sheet.put("layout.virtual_pipeline", v, "--num-layers-per-virtual-pipeline-stage",
              fmt::format("{} layers / ({} × {})", *facts.layers, facts.pipeline, *each));
    return std::clamp<std::int64_t>(v, 1, 10'000);
}

// Layers of each stage where the first and the last rank have numbers of their own, or embedding
// and loss count as a layer; empty where the numbers do not split.
std::vector<std::int64_t> uneven(const MegatronFacts& facts, Count first, Count last,
                                 bool embedding, bool loss) {
    const std::int64_t p = facts.pipeline, v = facts.chunks, layers = *facts.layers;
    std::vector<std::int64_t> stages(static_cast<std::size_t>(p * v));
    if (embedding || loss) {
        const std::int64_t counted = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
        if (counted % (p * v) != 0) return {};
        std::fill(stages.begin(), stages.end(), counted / (p * v));
        stages.front() -= embedding ? 1 : 0;
        stages.back() -= loss ? 1 : 0;
        return stages;
    }
    const std::int64_t others = p - (first ? 1 : 0) - (last ? 1 : 0);
    const std::int64_t rest = layers - first.value_or(0) - last.value_or(0);
    if (others < 0 || rest < 0 || (others == 0 ? rest != 0 : rest % (others * v) != 0)) return {};
    if (first.value_or(0) % v != 0 || last.value_or(0) % v != 0) return {};
    for (std::int64_t stage = 0; stage < p * v; ++stage) {
        const std::int64_t rank = stage % p;
        std::int64_t of_rank = others == 0 ? 0 : rest / others;
        if (first && rank == 0) of_rank = *first;
        if (last && rank == p - 1) of_rank = *last;
        stages[static_cast<std::size_t>(stage)] = of_rank / v;
    }
    return stages;
}

void map_layers_of_stages(Sheet& sheet, const MegatronFacts& facts) {
    const char* const options[] = {
        "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
        "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"};
    const Count first = sheet.whole({options[0]}), last = sheet.whole({options[1]});
    const bool embedding = sheet.flag({options[2]}), loss = sheet.flag({options[3]});
    std::string from;
    for (const char* option : options)
        if (sheet.has(option)) from += (from.empty() ? "" : ", ") + std::string(option);
    if (from.empty() || !facts.layers) return;
    if (facts.pipeline == 1) {
        for (const char* option : options)
            sheet.ignore(option, "without a pipeline it changes nothing");
        return;
    }
    const std::vector<std::int64_t> stages = uneven(facts, first, last, embedding, loss);
    if (!stages.empty()) {
        sheet.put("layout.layers_per_stage", stages, from);
        return;
    }
    sheet.report("I004", from.substr(0, from.find(',')), "the layers do not split into such stages")
        .arithmetic = fmt::format(
        "{} layers, pipeline {} × virtual {}, first rank {}, last rank {}", *facts.layers,
        facts.pipeline, facts.chunks, first.value_or(0), last.value_or(0));
}

int stage_of(Sheet& sheet, std::string& from) {
    const bool fsdp = sheet.flag({"--use-megatron-fsdp", "--use-custom-fsdp"});
    const auto strategy = sheet.word({"--data-parallel-sharding-strategy"},
                                     {"no_shard", "optim", "optim_grads", "optim_grads_params"});
    const bool optimizer = sheet.flag({"--use-distributed-optimizer"});
    if (sheet.flag({"--use-torch-fsdp2"})) {
        from = "--use-torch-fsdp2";
        sheet.ignore("--no-gradient-accumulation-fusion",
                     "Megatron-LM demands it with --use-torch-fsdp2");
        return 3;
    }
    if (fsdp && strategy) {
        from = "--data-parallel-sharding-strategy";
        if (*strategy == "no_shard") return 0;
        return *strategy == "optim" ? 1 : *strategy == "optim_grads" ? 2 : 3;
    }
    if (strategy)
        sheet.ignore("--data-parallel-sharding-strategy",
                     "Megatron-LM reads it with --use-megatron-fsdp");
    from = "--use-distributed-optimizer";
    return optimizer ? 1 : 0;
}

}  // namespace

void map_megatron_degrees(Sheet& sheet, const Wishes& wishes, MegatronFacts& facts) {
    facts.tensor = copied_degree(sheet, "--tensor-model-parallel-size", "layout.tensor_parallel");
    facts.pipeline =
        copied_degree(sheet, "--pipeline-model-parallel-size", "layout.pipeline_parallel");
    // Megatron's fork with DeepSpeed has Ulysses' ranks for a context.
    const bool ulysses = sheet.has("--ds-sequence-parallel-size");
    facts.context =
        copied_degree(sheet, ulysses ? "--ds-sequence-parallel-size" : "--context-parallel-size",
                      "layout.context_parallel");
    facts.data = settle_data_parallel(sheet, ranks_of(sheet, wishes), facts.tensor, facts.pipeline,
                                      facts.context);
    if (ulysses && facts.context > 1)
        sheet.put("layout.context_algorithm", "all_to_all", "--ds-sequence-parallel-size",
                  "DeepSpeed-Ulysses");
    else
        map_context(sheet, facts);
    const bool sequence = sheet.flag({"--sequence-parallel"});
    if (sequence && facts.tensor == 1)
        sheet.ignore("--sequence-parallel", "Megatron-LM turns it off at tensor parallel 1");
    else if (sequence)
        sheet.put("layout.sequence_parallel", true, "--sequence-parallel");
    else
        sheet.put_usual("layout.sequence_parallel", false, "--sequence-parallel");
}

void map_megatron_stages(Sheet& sheet, MegatronFacts& facts) {
    const auto by_letters = stages_by_letters(sheet, facts);
    facts.chunks = by_letters ? std::ssize(*by_letters) / facts.pipeline : chunks_of(sheet, facts);
    const bool interleaved = facts.chunks > 1;
    sheet.put_usual("layout.schedule", interleaved ? "interleaved" : "1f1b",
                    "--num-layers-per-virtual-pipeline-stage");
    if (by_letters) {
        if (interleaved) sheet.put("layout.virtual_pipeline", facts.chunks, kStageLayout);
        sheet.put("layout.layers_per_stage", *by_letters, kStageLayout);
    } else {
        map_layers_of_stages(sheet, facts);
    }
    const auto group = sheet.whole({"--microbatch-group-size-per-virtual-pipeline-stage"});
    if (group == facts.pipeline || !interleaved)
        sheet.ignore("--microbatch-group-size-per-virtual-pipeline-stage",
                     "as many as ranks of the pipeline, as without it");
    else
        sheet.refuse("--microbatch-group-size-per-virtual-pipeline-stage",
                     "groups are as large as the pipeline");
}

void map_megatron_sharding(Sheet& sheet, const MegatronFacts& facts) {
    std::string from;
    const int stage = stage_of(sheet, from);
    if (stage > 0)
        sheet.put("layout.zero_stage", stage, from);
    else
        sheet.put_usual("layout.zero_stage", 0, from);
    const auto copies = sheet.whole({"--num-distributed-optimizer-instances"});
    if (copies && *copies > 1 && stage > 0 && facts.data) {
        const std::int64_t ranks = *facts.data * facts.context;
        if (ranks % *copies == 0)
            sheet.put("layout.zero_group_size", ranks / *copies,
                      "--num-distributed-optimizer-instances");
        else
            sheet
                .report("I004", "--num-distributed-optimizer-instances",
                        "the data ranks do not split into so many groups")
                .arithmetic = fmt::format("data × context / instances = {} / {} = {}", ranks,
                                          *copies, quotient(ranks, *copies));
    } else if (copies && *copies > 1 && stage > 0) {
        sheet.refuse("--num-distributed-optimizer-instances",
                     "the size of a group follows from the ranks: give --gpus");
    } else {
        sheet.ignore("--num-distributed-optimizer-instances", "at this value it changes nothing");
    }
    if (sheet.flag({"--torch-fsdp2-no-reshard-after-forward"}))
        sheet.put("layout.reshard_after_forward", false, "--torch-fsdp2-no-reshard-after-forward");
    if (sheet.flag({"--optimizer-cpu-offload"}))
        sheet.put("layout.offload.optimizer", "host", "--optimizer-cpu-offload",
                  "Orrery's optimizer runs on the device, its states are fetched");
}

namespace {

// Those that layers here have, under their own names.
void map_modules(Sheet& sheet, const Setting& modules) {
    constexpr const char* kKey = "--recompute-modules";
    Json all = modules.value.is_array() ? modules.value : Json::array({modules.value});
    const std::vector<std::string_view> known = recomputed_module_names();
    if (std::all_of(all.begin(), all.end(), [&](const Json& word) {
            return std::any_of(known.begin(), known.end(),
                               [&](std::string_view name) { return word == name; });
        }))
        sheet.put("layout.recompute_modules", std::move(all), kKey);
    else
        sheet.refuse(kKey, fmt::format("a layer is made again by {}", fmt::join(known, ", ")));
}

}  // namespace

void map_megatron_recompute(Sheet& sheet, const MegatronFacts& facts) {
    const bool old = sheet.flag({"--checkpoint-activations"});
    const bool selective = sheet.flag({"--recompute-activations"});
    const auto granularity = sheet.word({"--recompute-granularity"}, {"full", "selective"});
    const auto method =
        sheet.word({"--recompute-method", "--activations-checkpoint-method"}, {"uniform", "block"});
    const auto group = sheet.whole({"--recompute-num-layers", "--checkpoint-num-layers",
                                    "--activations-checkpoint-num-layers"});
    const Setting* modules = sheet.find({"--recompute-modules"});
    const std::int64_t layers = group.value_or(1);
    const std::string from = granularity ? "--recompute-granularity"
                             : selective ? "--recompute-activations"
                             : old       ? "--checkpoint-activations"
                             : method    ? "--activations-checkpoint-method"
                                         : "";
    if (from.empty()) {
        sheet.put_usual("layout.recompute", "none", "--recompute-granularity");
    } else if (granularity == "selective" || (selective && !granularity)) {
        sheet.put("layout.recompute", "selective", from);
        if (modules != nullptr) map_modules(sheet, *modules);
    } else if (method == "block") {
        const std::int64_t of_stage =
            facts.layers.value_or(0) / std::max<std::int64_t>(facts.pipeline * facts.chunks, 1);
        if (facts.layers && layers >= of_stage) {
            sheet.put("layout.recompute", "full", from, "block of all layers of a stage");
            return;
        }
        sheet.refuse("--recompute-method", "only uniform groups are recomputed");
        sheet.refuse("--activations-checkpoint-method", "only uniform groups are recomputed");
        sheet.refuse("--recompute-num-layers", "only uniform groups are recomputed");
    } else if (layers == 1) {
        sheet.put("layout.recompute", "full", from);
    } else {
        sheet.put("layout.recompute", "every_k", from);
        sheet.put("layout.recompute_every", layers, "--recompute-num-layers");
    }
}

}  // namespace orrery::plan::imports
