#include "plan/scenario/import/deepspeed.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/import/deepspeed_program.hpp"
#include "plan/scenario/import/deepspeed_rows.hpp"
#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/sheet.hpp"
#include "plan/scenario/import/shell_script.hpp"

namespace orrery::plan::imports {
namespace {

using Count = std::optional<std::int64_t>;
using Kind = Direct::Kind;

constexpr const char* kBatch = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

// DeepSpeed's own defaults: runtime/fp16/loss_scaler.py, runtime/constants.py.
constexpr Direct kLossScale[] = {
    {"fp16.loss_scale_window", "training.loss_scale.growth_interval", Kind::whole, "1000"},
    {"fp16.hysteresis", "training.loss_scale.hysteresis", Kind::whole, "2"},
    {"fp16.min_loss_scale", "training.loss_scale.minimum", Kind::number, "1"},
};

// Of torch.optim.AdamW's and DeepSpeed's Adam.
constexpr Direct kAdam[] = {
    {"optimizer.params.lr", "training.optimizer.learning_rate", Kind::number, "1e-3"},
    {"optimizer.params.eps", "training.optimizer.epsilon", Kind::number, "1e-8"},
    {"optimizer.params.weight_decay", "training.optimizer.weight_decay", Kind::number, "0.0"},
};

// A value that the script which writes the config does not settle is a marked string.
Setting setting_of_config(const std::string& path, const Json& value) {
    Setting setting = {path, value, 0, false};
    if (!value.is_string()) return setting;
    std::string text = value.get<std::string>();
    for (const std::string_view mark : {kOpens, kCloses})
        for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
            text.erase(at, mark.size());
            setting.open = true;
        }
    if (setting.open) setting.value = text;
    return setting;
}

void flatten(const Json& value, const std::string& path, std::vector<Setting>& out) {
    if (!value.is_object()) {
        out.push_back(setting_of_config(path, value));
        return;
    }
    for (const auto& [key, inner] : value.items())
        flatten(inner, path.empty() ? key : path + '.' + key, out);
}

struct DeepSpeedFacts {
    int stage = 0;
    std::string precision;
    Count data;
};

void map_ranks(Sheet& sheet, const Ranks& ranks, DeepSpeedFacts& facts) {
    const Json tensor =
        sheet.copy({"tensor_parallel.autotp_size", "layout.tensor_parallel", Kind::whole});
    const Json sequence =
        sheet.copy({"sequence_parallel_size", "layout.context_parallel", Kind::whole});
    const auto degree = [](const Json& value) {
        return value.is_null() ? std::int64_t{1} : value.get<std::int64_t>();
    };
    if (degree(tensor) < 1 || degree(sequence) < 1) {
        sheet.report("I002", "tensor_parallel.autotp_size", "a degree is 1 or more");
        return;
    }
    if (degree(sequence) > 1)
        sheet.put("layout.context_algorithm", "all_to_all", "sequence_parallel_size",
                  "DeepSpeed-Ulysses");
    if (tensor.is_null())
        sheet.miss("layout.tensor_parallel", "a DeepSpeed config does not say it", "1");
    sheet.miss("layout.pipeline_parallel", "pipelines are in the program, not in its config", "1");
    if (ranks.count)
        facts.data = settle_data_parallel(sheet, ranks, degree(tensor), 1, degree(sequence));
}

// train_batch_size = train_micro_batch_size_per_gpu × gradient_accumulation_steps × data ranks:
// any of them follows from the others.
void map_batch(Sheet& sheet, const DeepSpeedFacts& facts) {
    Count batch = sheet.whole({kBatch}), micro = sheet.whole({kMicro});
    Count steps = sheet.whole({kAccumulation});
    const bool left =
        sheet.automatic({kBatch}) || sheet.automatic({kMicro}) || sheet.automatic({kAccumulation});
    Count data = facts.data;
    if (!data && batch && micro && steps && *micro * *steps > 0 &&
        *batch % (*micro * *steps) == 0) {
        data = *batch / (*micro * *steps);
        sheet.put("layout.data_parallel", *data, kBatch,
                  fmt::format("{} / ({} × {})", *batch, *micro, *steps));
    } else if (!data) {
        sheet.put_usual("layout.data_parallel", "auto", "ranks of the run");
        sheet.miss("layout.data_parallel",
                   "a DeepSpeed config does not say the ranks; --gpus N does",
                   "\"auto\": what the other degrees leave of the cluster");
    }
    if (batch && micro && steps && (!data || *batch != *micro * *steps * *data)) {
        Diagnostic& fault =
            sheet.report("I004", kBatch, "the three batch sizes do not belong together");
        const std::int64_t product = *micro * *steps * data.value_or(1);
        fault.arithmetic =
            fmt::format("{} × {} × data-parallel ranks = {} × {} × {}{}\n{} = {}", kMicro,
                        kAccumulation, *micro, *steps, data ? std::to_string(*data) : "n",
                        data ? " = " + std::to_string(product) : "", kBatch, *batch);
        return;
    }
    if (!left && !steps && (batch.has_value() != micro.has_value())) steps = 1;
    if (!batch && micro && steps && data) batch = *micro * *steps * *data;
    if (!micro && batch && steps && data && *steps > 0 && *batch % (*steps * *data) == 0)
        micro = *batch / (*steps * *data);
    if (batch)
        sheet.put("layout.global_batch_size", *batch,
                  sheet.has(kBatch) && !sheet.automatic({kBatch})
                      ? kBatch
                      : fmt::format("{} × {} × ranks", kMicro, kAccumulation));
    else
        sheet.miss("layout.global_batch_size",
                   fmt::format("{} is not given, or \"auto\"{}", kBatch,
                               data ? "" : ", and the ranks are not known"));
    if (micro)
        sheet.put("layout.micro_batch_size", *micro,
                  sheet.has(kMicro) && !sheet.automatic({kMicro})
                      ? kMicro
                      : fmt::format("{} / ({} × ranks)", kBatch, kAccumulation));
    else
        sheet.miss("layout.micro_batch_size", fmt::format("{} is not given, or \"auto\"", kMicro),
                   "1");
    if (batch && micro && data) check_batch(sheet, kBatch, *batch, *micro, *data);
}

void map_kept(Sheet& sheet, const char* key, const char* to) {
    const auto device = sheet.word({key}, {"none", "cpu", "nvme"});
    if (!device) return;
    const char* kept = *device == "cpu" ? "host" : *device == "nvme" ? "disk" : "none";
    sheet.put(to, kept, key);
}

void map_zero(Sheet& sheet, DeepSpeedFacts& facts) {
    const Setting* whole = sheet.find({"zero_optimization"});
    Count stage = sheet.whole({"zero_optimization.stage"});
    if (whole != nullptr && whole->value.is_boolean()) stage = whole->value.get<bool>() ? 1 : 0;
    if (stage && (*stage < 0 || *stage > 3))
        sheet.report("I002", "zero_optimization.stage", "zero_optimization.stage takes 0 to 3");
    facts.stage = static_cast<int>(stage.value_or(0));
    if (stage)
        sheet.put("layout.zero_stage", facts.stage,
                  whole != nullptr ? "zero_optimization" : "zero_optimization.stage");
    else
        sheet.put_usual("layout.zero_stage", 0, "zero_optimization.stage");
    map_kept(sheet, "zero_optimization.offload_optimizer.device", "layout.offload.optimizer");
    map_kept(sheet, "zero_optimization.offload_param.device", "layout.offload.parameters");
    if (sheet.flag({"zero_optimization.cpu_offload"}))
        sheet.put("layout.offload.optimizer", "host", "zero_optimization.cpu_offload");
    if (sheet.flag({"zero_optimization.cpu_offload_param"}))
        sheet.put("layout.offload.parameters", "host", "zero_optimization.cpu_offload_param");
    const auto shards = sheet.whole({"zero_optimization.mics_shard_size"});
    if (shards && *shards > 0)
        sheet.put("layout.zero_group_size", *shards, "zero_optimization.mics_shard_size");
    else
        sheet.ignore("zero_optimization.mics_shard_size", "at this value it changes nothing");
}

void map_communication(Sheet& sheet, const DeepSpeedFacts& facts) {
    const auto overlap = sheet.boolean({"zero_optimization.overlap_comm"});
    if (overlap)
        sheet.put("training.overlap_gradient_reduce", *overlap, "zero_optimization.overlap_comm");
    else if (!sheet.automatic({"zero_optimization.overlap_comm"}))
        sheet.put_usual("training.overlap_gradient_reduce", facts.stage == 3,
                        "zero_optimization.overlap_comm");
    const char* bucket = "zero_optimization.reduce_bucket_size";
    const auto elements = sheet.number({bucket});
    const double bytes = facts.precision == "fp32" ? 4 : 2;
    if (sheet.automatic({bucket}))
        sheet.miss("training.gradient_bucket_mb", fmt::format("{} is \"auto\"", bucket),
                   "that of the framework");
    else if (elements)
        sheet.put("training.gradient_bucket_mb", plain(*elements * bytes / 1e6), bucket,
                  fmt::format("elements of {} bytes", bytes));
    else
        sheet.put_usual("training.gradient_bucket_mb", plain(5e8 * bytes / 1e6), bucket,
                        fmt::format("500 million elements of {} bytes", bytes));
    const char* prefetch = "zero_optimization.stage3_prefetch_bucket_size";
    const auto ahead = sheet.number({prefetch, "zero_optimization.prefetch_bucket_size"});
    if (sheet.automatic({prefetch}) || (ahead && facts.stage < 3))
        sheet.ignore(prefetch, facts.stage < 3
                                   ? "without ZeRO-3 nothing is gathered ahead"
                                   : "\"auto\": the framework's training.zero_prefetch stands");
    else if (ahead)
        sheet.put("training.zero_prefetch", *ahead > 0 ? 1 : 0, prefetch,
                  "parameters in DeepSpeed; parts of the model here");
}

// `otherwise`: of the program's parameters, where the config says nothing; empty: not known.
void map_precision(Sheet& sheet, DeepSpeedFacts& facts, const std::string& otherwise = "") {
    const auto bf16 = sheet.boolean({"bf16.enabled", "bfloat16.enabled"});
    const auto fp16 = sheet.boolean({"fp16.enabled"});
    if (bf16.value_or(false) && fp16.value_or(false))
        sheet.report("I004", "fp16.enabled", "bf16 and fp16 exclude each other");
    facts.precision = bf16.value_or(false) ? "bf16" : fp16.value_or(false) ? "fp16" : "fp32";
    if (facts.precision == "fp32" && (sheet.automatic({"bf16.enabled", "bfloat16.enabled"}) ||
                                      sheet.automatic({"fp16.enabled"}))) {
        facts.precision = "bf16";
        sheet.miss("training.precision", "bf16.enabled, fp16.enabled: \"auto\"", "\"bf16\"");
    } else if (facts.precision == "fp32" && !otherwise.empty()) {
        facts.precision = otherwise;
    } else if (facts.precision == "fp32") {
        sheet.put_usual("training.precision", "fp32", "bf16.enabled, fp16.enabled");
    } else {
        sheet.put("training.precision", facts.precision, facts.precision + ".enabled");
    }
    const auto constant = sheet.number({"fp16.loss_scale"});
    const auto power = sheet.whole({"fp16.initial_scale_power"});
    if (facts.precision == "fp16" && constant.value_or(0) > 0) {
        sheet.put("training.loss_scale", plain(*constant), "fp16.loss_scale");
    } else if (facts.precision == "fp16") {
        double scale = 1;
        for (std::int64_t i = 0; i < power.value_or(16) && i < 64; ++i)
            scale *= 2;
        sheet.put("training.loss_scale.initial", plain(scale), "fp16.initial_scale_power");
        sheet.copy(kLossScale);
    } else {
        for (const char* key : {"fp16.loss_scale", "fp16.initial_scale_power",
                                "fp16.loss_scale_window", "fp16.hysteresis", "fp16.min_loss_scale"})
            sheet.ignore(key, "only gradients in fp16 need it");
    }
    const auto sums = sheet.word({"data_types.grad_accum_dtype"}, {"fp32", "bf16", "fp16"});
    if (sums)
        sheet.put("training.gradient_dtype", *sums == facts.precision ? "same" : *sums,
                  "data_types.grad_accum_dtype");
    else
        sheet.put_usual("training.gradient_dtype",
                        facts.precision == "bf16" && facts.stage == 0 ? "fp32" : "same",
                        "data_types.grad_accum_dtype");
}

void map_optimizer(Sheet& sheet) {
    const auto type = sheet.text({"optimizer.type"});
    const std::string name = type.value_or("");
    if (!sheet.has("optimizer.type")) {
        for (const char* key : {"kind", "learning_rate", "beta1", "beta2", "epsilon"})
            sheet.miss(std::string("training.optimizer.") + key,
                       "the optimizer is in the program, not in its config", "Orrery's default");
    } else if (name != "Adam" && name != "AdamW" && !sheet.automatic({"optimizer.type"})) {
        sheet.refuse("optimizer.type", "only AdamW is modelled");
    } else {
        sheet.put("training.optimizer.kind", "adamw", "optimizer.type");
        const Setting* betas = sheet.find({"optimizer.params.betas"});
        const bool left = sheet.automatic({"optimizer.params.betas"});
        if (betas != nullptr && !left && (!betas->value.is_array() || betas->value.size() != 2)) {
            sheet.report("I002", betas->key, "optimizer.params.betas takes two numbers");
        } else if (left) {
            sheet.miss("training.optimizer.beta1", "betas: \"auto\"", "0.9");
            sheet.miss("training.optimizer.beta2", "betas: \"auto\"", "0.95");
        } else {
            const Json pair = betas == nullptr ? Json::array({0.9, 0.999}) : betas->value;
            sheet.put("training.optimizer.beta1", pair[0], "optimizer.params.betas");
            sheet.put("training.optimizer.beta2", pair[1], "optimizer.params.betas");
        }
        sheet.copy(kAdam);
    }
    sheet.copy({"gradient_clipping", "training.optimizer.clip_norm", Kind::number, "0.0"});
}

void map_schedule(Sheet& sheet) {
    const auto type = sheet.text({"scheduler.type"});
    if (!type) return;
    const bool cosine = *type == "WarmupCosineLR";
    if (cosine || *type == "WarmupLR")
        sheet.put("training.schedule.decay", cosine ? "cosine" : "constant", "scheduler.type");
    else
        sheet.ignore("scheduler.type",
                     "Orrery decays by a cosine or not at all; no step's work depends on it");
    sheet.copy(
        {"scheduler.params.warmup_num_steps", "training.schedule.warmup_steps", Kind::whole});
    const auto ratio = sheet.number({"scheduler.params.cos_min_ratio"});
    const auto rate = sheet.number({"optimizer.params.lr"});
    if (ratio && rate && cosine)
        sheet.put("training.schedule.min_learning_rate", plain(*ratio * *rate),
                  "scheduler.params.cos_min_ratio", "× optimizer.params.lr");
    sheet.copy({"scheduler.params.total_num_steps", "run.steps", Kind::whole});
}

void map_activations(Sheet& sheet) {
    if (sheet.flag({"activation_checkpointing.cpu_checkpointing"}))
        sheet.put("layout.offload.activations", "host",
                  "activation_checkpointing.cpu_checkpointing");
}

void map_rest(Sheet& sheet, const Wishes& wishes) {
    sheet.put_usual("training.framework", "deepspeed", "DeepSpeed");
    sheet.put_usual("training.vocabulary_multiple", 1, "DeepSpeed", "it pads no vocabulary");
    map_program(sheet, wishes);
    map_activations(sheet);
}

// Empty where the text is no config; the reason is then in `out`.
std::vector<Setting> read_config(std::string_view text, const std::string& file, Imported& out) {
    ParsedJson parsed = parse_json(text, file);
    out.errors = std::move(parsed.errors);
    out.unreadable = parsed.not_json;
    if (parsed.incomplete) return {};
    if (!parsed.value.is_object()) {
        Diagnostic fault;
        fault.code = "I001";
        fault.file = file;
        fault.message = "a DeepSpeed config is a JSON object";
        out.errors.push_back(std::move(fault));
        out.unreadable = true;
        return {};
    }
    std::vector<Setting> settings;
    flatten(parsed.value, "", settings);
    return settings;
}

void map_config(Sheet& sheet, const Ranks& ranks, const Wishes& wishes) {
    DeepSpeedFacts facts;
    map_ranks(sheet, ranks, facts);
    map_zero(sheet, facts);
    map_batch(sheet, facts);
    map_precision(sheet, facts);
    map_optimizer(sheet);
    map_schedule(sheet);
    map_communication(sheet, facts);
    map_rest(sheet, wishes);
}

}  // namespace

Imported import_deepspeed(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    std::vector<Setting> settings = read_config(text, file, out);
    if (!out.errors.empty()) return out;
    Sheet sheet(file, std::move(settings), out, true);
    map_config(sheet, {wishes.gpus, "--gpus", "a DeepSpeed config does not say the ranks"}, wishes);
    sheet.settle(deepspeed_ignored(), deepspeed_unsupported());
    return out;
}

Imported import_deepspeed_run(std::string_view text, const std::string& file, const Launch& launch,
                              const Wishes& wishes) {
    Imported out;
    std::vector<Setting> settings = read_config(text, file, out);
    if (!out.errors.empty()) return out;
    fill_automatic(settings, launch.options);
    for (const auto* more : {&launch.launchers, &launch.options})
        settings.insert(settings.end(), more->begin(), more->end());
    Sheet sheet(file, std::move(settings), out, true);
    const Launched launched = launched_ranks(sheet);
    Ranks ranks = {launched.ranks, launched.from, "no launcher says the ranks"};
    if (wishes.gpus) ranks = {wishes.gpus, "--gpus", ""};
    map_config(sheet, ranks, wishes);
    for (const Setting& setting : launch.launchers)
        if (!sheet.used(setting.key) || !ranks.count || wishes.gpus)
            sheet.ignore(setting.key, "how ranks are started");
    settle_program(sheet);
    return out;
}

Imported import_engine(std::string_view text, const std::string& file,
                       const EngineSurroundings& known) {
    Imported out;
    std::vector<Setting> settings = read_config(text, file, out);
    if (!out.errors.empty()) return out;
    std::vector<std::string> programs;
    bool batch = false;
    for (const Setting& setting : settings) {
        batch = batch || setting.key == kBatch || setting.key == kMicro;
        for (const char* begin : {"optimizer.", "scheduler.", "tensor_parallel.",
                                  "sequence_parallel_size", "gradient_accumulation_steps"})
            if (setting.key.rfind(begin, 0) == 0) programs.push_back(setting.key);
    }
    Sheet sheet(file, std::move(settings), out, true);
    DeepSpeedFacts facts;
    facts.data = known.data;
    map_zero(sheet, facts);
    if (batch) map_batch(sheet, facts);
    map_precision(sheet, facts, known.precision);
    sheet.copy({"gradient_clipping", "training.optimizer.clip_norm", Kind::number, "0.0"});
    map_communication(sheet, facts);
    map_activations(sheet);
    for (const std::string& key : programs)
        if (!sheet.used(key)) sheet.ignore(key, "the program's own options decide");
    sheet.settle(deepspeed_ignored(), deepspeed_unsupported());
    return out;
}

}  // namespace orrery::plan::imports
