// A scenario as a DeepSpeed config, the inverse of plan/scenario/import/deepspeed.cpp. Model,
// sequence length, pipeline and recomputation are in the program that reads it.
#include <fmt/format.h>

#include <cmath>

#include "plan/scenario/export/tools.hpp"

namespace orrery::plan::exports {
namespace {

constexpr const char* kZero = "zero_optimization.";

const char* device_of(KeptOn kept) {
    return kept == KeptOn::host ? "cpu" : "nvme";
}

void add_deepspeed_zero(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    const Framework& framework = wanted.training().framework;
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string(kZero) + key, std::move(value)});
    };
    add("stage", layout.zero_stage);
    add("overlap_comm", framework.overlap_gradient_reduce);
    // Elements, which its importer takes for those of a type of the training's width.
    const double width = wanted.training().precision == Precision::fp32 ? 4 : 2;
    add("reduce_bucket_size", plain(framework.gradient_bucket_mb * 1e6 / width));
    if (layout.offload.optimizer != KeptOn::none)
        add("offload_optimizer.device", device_of(layout.offload.optimizer));
    if (layout.offload.parameters != KeptOn::none)
        add("offload_param.device", device_of(layout.offload.parameters));
    if (layout.zero_stage > 0 && layout.zero_group_size > 0)
        add("mics_shard_size", layout.zero_group_size);
    if (layout.zero_stage == 3 && wanted.given("training.zero_prefetch"))
        add("stage3_prefetch_bucket_size", framework.zero_prefetch > 0 ? 50'000'000 : 0);
}

void add_deepspeed_precision(const Wanted& wanted, Settings& out) {
    const Precision precision = wanted.training().precision;
    if (precision == Precision::bf16 || precision == Precision::fp8)
        out.push_back({"bf16.enabled", true});
    if (precision == Precision::fp16) {
        out.push_back({"fp16.enabled", true});
        if (wanted.training().loss_scale > 0)
            out.push_back({"fp16.loss_scale", plain(wanted.training().loss_scale)});
        else
            out.push_back({"fp16.initial_scale_power",
                           static_cast<std::int64_t>(std::llround(
                               std::log2(wanted.training().dynamic_loss_scale.initial)))});
    }
    const Json sums = wanted.at("training.gradient_dtype");
    const std::string own = precision == Precision::fp16   ? "fp16"
                            : precision == Precision::fp32 ? "fp32"
                                                           : "bf16";
    out.push_back({"data_types.grad_accum_dtype", sums == "same" ? Json(own) : sums});
}

}  // namespace

Settings deepspeed_settings(const Wanted& wanted) {
    const Layout& layout = wanted.layout();
    const Optimizer& optimizer = wanted.training().optimizer;
    Settings out = {{"train_batch_size", layout.global_batch_size},
                    {"train_micro_batch_size_per_gpu", layout.micro_batch_size},
                    {"gradient_accumulation_steps",
                     layout.global_batch_size / (layout.micro_batch_size * layout.data_parallel)}};
    add_deepspeed_zero(wanted, out);
    add_deepspeed_precision(wanted, out);
    out.push_back({"optimizer.type", "AdamW"});
    out.push_back(
        {"optimizer.params.betas", Json::array({plain(optimizer.beta1), plain(optimizer.beta2)})});
    const LearningRateSchedule& schedule = wanted.training().schedule;
    const bool cosine = schedule.decay == Decay::cosine;
    out.push_back({"scheduler.type", cosine ? "WarmupCosineLR" : "WarmupLR"});
    if (cosine) {
        if (wanted.steps() > 0) out.push_back({"scheduler.params.total_num_steps", wanted.steps()});
        out.push_back({"scheduler.params.cos_min_ratio",
                       plain(schedule.min_learning_rate / optimizer.learning_rate)});
    }
    if (layout.offload.activations == KeptOn::host)
        out.push_back({"activation_checkpointing.cpu_checkpointing", true});
    return out;
}

// Its JSON has no comments that every reader takes: a part that DeepSpeed does not read has them.
std::string deepspeed_text(const Settings& settings, const Wanted&, const Heading& heading) {
    Json tree = {{"orrery", {{"notes", heading.lines}}}};
    for (const Written& setting : settings) {
        std::string pointer = '/' + setting.key;
        for (char& c : pointer)
            if (c == '.') c = '/';
        tree[Json::json_pointer(pointer)] = setting.value;
    }
    return tree.dump(2) + '\n';
}

std::string deepspeed_start(const Wanted& wanted) {
    return fmt::format(
        "deepspeed --num_nodes={} --num_gpus={} PROGRAM.py --deepspeed --deepspeed_config FILE",
        wanted.nodes(), wanted.ranks_per_node());
}

}  // namespace orrery::plan::exports
