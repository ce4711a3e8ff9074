// A scenario as a torchtitan config, the inverse of plan/scenario/import/torchtitan*.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/scenario/export/tools.hpp"
#include "plan/scenario/import/torchtitan_pipeline.hpp"

namespace orrery::plan::exports {
namespace {

constexpr std::int64_t kMostLess = 4;  // layers that embedding or head may count for

// How many layers embedding and head count for so that torchtitan's rule makes these stages.
void add_torchtitan_stages(const Layout& layout, Settings& out) {
    const auto& stages = layout.layers_per_stage;
    const auto count = static_cast<std::int64_t>(stages.size());
    std::int64_t layers = 0;
    for (const std::int64_t each : stages)
        layers += each;
    for (std::int64_t first = 0; first <= kMostLess; ++first)
        for (std::int64_t last = 0; last <= kMostLess; ++last) {
            const std::int64_t all = layers + first + last;
            if (imports::torchtitan_stages(layers, first, last, count) != stages) continue;
            out.push_back(
                {"parallelism.pipeline_parallel_layers_per_stage", (all + count - 1) / count});
            out.push_back({"parallelism.pipeline_parallel_first_stage_less_layers", first});
            out.push_back({"parallelism.pipeline_parallel_last_stage_less_layers", last});
            return;
        }
    std::vector<std::string> points;
    std::int64_t at = 0;
    for (std::size_t stage = 0; stage + 1 < stages.size(); ++stage)
        points.push_back(fmt::format("layers.{}", at += stages[stage]));
    out.push_back({"parallelism.pipeline_parallel_split_points", points});
}

void add_torchtitan_degrees(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string("parallelism.") + key, std::move(value)});
    };
    const std::int64_t shards =
        layout.zero_stage == 0 ? 1
        : layout.zero_group_size > 0
            ? std::max<std::int64_t>(1, layout.zero_group_size / layout.context_parallel)
            : layout.data_parallel;
    add("data_parallel_replicate_degree", layout.data_parallel / shards);
    add("data_parallel_shard_degree", shards);
    if (layout.zero_stage == 3)
        add("fsdp_reshard_after_forward", layout.reshard_after_forward ? "always" : "never");
    add("tensor_parallel_degree", layout.tensor_parallel);
    add("context_parallel_degree", layout.context_parallel);
    if (layout.context_parallel > 1)
        add("context_parallel_rotate_method",
            layout.context_algorithm == ContextAlgorithm::all_gather ? "allgather" : "alltoall");
    add("pipeline_parallel_degree", layout.pipeline_parallel);
    if (layout.pipeline_parallel > 1) {
        add("pipeline_parallel_schedule", imports::torchtitan_schedule(layout.schedule));
        add("pipeline_parallel_microbatch_size", layout.micro_batch_size);
        add_torchtitan_stages(layout, out);
    }
    if (wanted.training().framework.tensor_overlap_parts > 1 && layout.tensor_parallel > 1)
        add("enable_async_tensor_parallel", true);
}

void add_torchtitan_recompute(const Layout& layout, Settings& out) {
    const auto say = [&](const char* mode, const char* option = nullptr) {
        out.push_back({"activation_checkpoint.mode", mode});
        if (option != nullptr) out.push_back({"activation_checkpoint.selective_ac_option", option});
    };
    switch (layout.recompute) {
        case Recompute::none:
            return say("none");
        case Recompute::selective_layer:
            return say("selective", std::to_string(layout.recompute_every).c_str());
        case Recompute::selective_op:
        case Recompute::selective:
            return say("selective", "op");
        case Recompute::full:
        case Recompute::every_k:
            return say("full");
    }
}

void add_torchtitan_training(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string("training.") + key, std::move(value)});
    };
    const std::int64_t of_rank = layout.global_batch_size / layout.data_parallel;
    add("local_batch_size", layout.pipeline_parallel > 1 ? of_rank : layout.micro_batch_size);
    add("global_batch_size", layout.global_batch_size);
    add("steps", std::max<std::int64_t>(1, wanted.steps()));
    const bool whole = wanted.training().precision == Precision::fp32;
    add("mixed_precision_param", whole ? "float32" : "bfloat16");
    if (layout.offload.parameters == KeptOn::host) add("enable_cpu_offload", true);
    out.push_back({"compile.enable", true});
    if (wanted.training().precision == Precision::fp8) {
        out.push_back({"model.converters", Json::array({"quantize.linear.float8"})});
        out.push_back({"quantize.linear.float8.recipe_name", wanted.at("training.fp8_recipe")});
    }
    const LearningRateSchedule& schedule = wanted.training().schedule;
    out.push_back({"lr_scheduler.warmup_steps", schedule.warmup_steps});
    if (schedule.decay == Decay::cosine) out.push_back({"lr_scheduler.decay_type", "cosine"});
    if (schedule.min_learning_rate > 0)
        out.push_back(
            {"lr_scheduler.min_lr_factor",
             plain(schedule.min_learning_rate / wanted.training().optimizer.learning_rate)});
    out.push_back({"optimizer.name", "AdamW"});
}

}  // namespace

Settings torchtitan_settings(const Wanted& wanted) {
    Settings out;
    add_torchtitan_training(wanted, out);
    add_torchtitan_degrees(wanted, out);
    add_torchtitan_recompute(wanted.layout(), out);
    return out;
}

std::string torchtitan_text(const Settings& settings, const Wanted&, const Heading& heading) {
    std::vector<std::string> sections;
    const auto section_of = [](const std::string& key) { return key.substr(0, key.rfind('.')); };
    for (const Written& setting : settings)
        if (std::find(sections.begin(), sections.end(), section_of(setting.key)) == sections.end())
            sections.push_back(section_of(setting.key));
    std::string text = as_comments(heading.lines);
    for (const std::string& section : sections) {
        text += fmt::format("\n[{}]\n", section);
        for (const Written& setting : settings)
            if (section_of(setting.key) == section)
                text += fmt::format("{} = {}\n", setting.key.substr(section.size() + 1),
                                    setting.value.dump());
    }
    return text;
}

std::string torchtitan_start(const Wanted& wanted) {
    return fmt::format(
        "torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=c10d --rdzv_endpoint=HOST:PORT "
        "-m torchtitan.train --job.config_file=FILE",
        wanted.nodes(), wanted.ranks_per_node());
}

}  // namespace orrery::plan::exports
