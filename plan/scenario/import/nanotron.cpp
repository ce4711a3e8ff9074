// Names and defaults are those of huggingface/nanotron, src/nanotron/config: config.py,
// parallelism_config.py, models_config.py.
#include "plan/scenario/import/nanotron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/reasons.hpp"
#include "plan/scenario/import/yaml_text.hpp"

namespace orrery::plan::imports {
namespace {

using Kind = Direct::Kind;

constexpr const char* kDocuments = "attention is causal over the whole sequence";
constexpr const char* kKernels = "which kernels are fused is what training.framework stands for";
constexpr const char* kOfModel = "model.model_config.";

constexpr Row kNanotronIgnored[] = {
    {"checkpoints.*", kCheckpoint},
    {"s3_upload.*", kCheckpoint},
    {"data_stages", kData},
    {"general.*", kStart},
    {"logging.*", kLog},
    {"profiler.*", kProfile},
    {"tokenizer.*", kData},
    {"lighteval.*", kEvaluation},
    {"tokens.val_check_interval", kEvaluation},
    {"tokens.limit_*", kEvaluation},
    {"model.init_method.*", "first weights are as large"},
    {"model.model_config.bos_token_id", kData},
    {"model.model_config.eos_token_id", kData},
    {"model.model_config.pad_token_id", kData},
    {"model.model_config.pretraining_tp", "of the run that a model is from"},
    {"model.model_config.use_cache", "of generation"},
    {"model.model_config.rope_interleaved", "another order of the same work"},
    {"model.model_config.z_loss_coefficient", "a number of the loss"},
    {"model.model_config.is_llama_config", "names the kind of model"},
    {"model.model_config.is_qwen2_config", "names the kind of model"},
    {"optimizer.optimizer_factory.torch_adam_is_fused", "the optimizer is one kernel per bucket"},
    {"optimizer.weight_decay_exclude_named_params", "decay costs nothing beside the update"},
    {"optimizer.learning_rate_scheduler.*", kRate},
};

constexpr Row kNanotronUnsupported[] = {
    {"model.model_config.moe_config.*", kMoe, nullptr, Changes::model},
    {"parallelism.expert_parallel_size", kMoe, "1", Changes::model},
    {"parallelism.moe_layer_recompute", kMoe, "false", Changes::model},
    {"model.model_config.is_starcoder2_config", "starcoder2 is not modelled", "false",
     Changes::model},
    {"model.model_config.sliding_window_size", "give a model with a sliding window by --model",
     nullptr, Changes::model},
    {"model.model_config.flex_attention_mask", kDocuments, nullptr, Changes::model},
    {"model.model_config.no_rope_layer", "layers without positions are not modelled", nullptr,
     Changes::model},
    {"model.model_config._use_doc_masking", kDocuments, "false"},
    {"model.model_config._attn_implementation", "attention is one fused kernel",
     "\"flash_attention_2\""},
    {"model.model_config._fused_*", kKernels, "true"},
    {"model.model_config._use_qkv_packed", kKernels, "true"},
    {"model.model_config.z_loss_enabled", kNotModelled, "false"},
    {"parallelism.tp_linear_async_communication", "give training.overlap_tensor_backward", "false"},
};

constexpr Direct kNanotronModel[] = {
    {"model.model_config.hidden_size", "model.hidden_size", Kind::whole, "4096"},
    {"model.model_config.intermediate_size", "model.intermediate_size", Kind::whole, "11008"},
    {"model.model_config.num_hidden_layers", "model.num_hidden_layers", Kind::whole, "32"},
    {"model.model_config.num_attention_heads", "model.num_attention_heads", Kind::whole, "32"},
    {"model.model_config.num_key_value_heads", "model.num_key_value_heads", Kind::whole},
    {"model.model_config.max_position_embeddings", "model.max_position_embeddings", Kind::whole,
     "2048"},
    {"model.model_config.vocab_size", "model.vocab_size", Kind::whole, "32000"},
    {"model.model_config.tie_word_embeddings", "model.tie_word_embeddings", Kind::flag, "false"},
    {"model.model_config.hidden_act", "model.hidden_act", Kind::text, "\"silu\""},
    {"model.model_config.rms_norm_eps", "model.rms_norm_eps", Kind::number, "1e-6"},
    {"model.model_config.rope_theta", "model.rope_theta", Kind::number, "10000"},
    {"model.model_config.initializer_range", "model.initializer_range", Kind::number, "0.02"},
    {"model.model_config.rope_scaling.rope_type", "model.rope_scaling.rope_type", Kind::text},
    {"model.model_config.rope_scaling.type", "model.rope_scaling.rope_type", Kind::text},
    {"model.model_config.rope_scaling.factor", "model.rope_scaling.factor", Kind::number},
    {"model.model_config.rope_scaling.low_freq_factor", "model.rope_scaling.low_freq_factor",
     Kind::number},
    {"model.model_config.rope_scaling.high_freq_factor", "model.rope_scaling.high_freq_factor",
     Kind::number},
    {"model.model_config.rope_scaling.original_max_position_embeddings",
     "model.rope_scaling.original_max_position_embeddings", Kind::whole},
};

constexpr Direct kNanotronTraining[] = {
    {"tokens.sequence_length", "training.sequence_length", Kind::whole},
    {"tokens.micro_batch_size", "layout.micro_batch_size", Kind::whole},
    {"tokens.train_steps", "run.steps", Kind::whole},
    {"general.seed", "training.seed", Kind::whole, "42"},
    {"optimizer.zero_stage", "layout.zero_stage", Kind::whole},
    {"optimizer.weight_decay", "training.optimizer.weight_decay", Kind::number},
    {"optimizer.clip_grad", "training.optimizer.clip_norm", Kind::number, "0"},
    {"optimizer.optimizer_factory.adam_beta1", "training.optimizer.beta1", Kind::number},
    {"optimizer.optimizer_factory.adam_beta2", "training.optimizer.beta2", Kind::number},
    {"optimizer.optimizer_factory.adam_eps", "training.optimizer.epsilon", Kind::number},
    {"optimizer.learning_rate_scheduler.learning_rate", "training.optimizer.learning_rate",
     Kind::number},
    {"optimizer.learning_rate_scheduler.lr_warmup_steps", "training.schedule.warmup_steps",
     Kind::whole, "0"},
    {"optimizer.learning_rate_scheduler.min_decay_lr", "training.schedule.min_learning_rate",
     Kind::number},
    {"model.make_vocab_size_divisible_by", "training.vocabulary_multiple", Kind::whole, "1"},
};

void map_nanotron_model(Sheet& sheet, const Wishes& wishes) {
    if (!wishes.model.empty()) {
        sheet.put("model", wishes.model, "--model");
        const std::pair<const char*, const char*> stated[] = {{"num_hidden_layers", "layers"},
                                                              {"hidden_size", "hidden"},
                                                              {"num_attention_heads", "heads"},
                                                              {"intermediate_size", "ffn_hidden"}};
        for (const auto& [key, what] : stated)
            sheet.state(kOfModel + std::string(key), what);
        for (const Direct& direct : kNanotronModel)
            sheet.ignore(direct.key, "the model is " + wishes.model);
        sheet.ignore("model.model_config.attention_bias", "the model is " + wishes.model);
        return;
    }
    const bool qwen = sheet.flag({"model.model_config.is_qwen2_config"});
    const bool llama = sheet.flag({"model.model_config.is_llama_config"});
    if (!qwen && !llama)
        sheet.miss("model", "model.model_config is of no kind that is read: llama or qwen2");
    // Qwen2 in nanotron has biases of Q, K and V only where it says so; without it is a Llama.
    const bool biased = sheet.flag({"model.model_config.attention_bias"});
    const bool biased_qwen = qwen && biased;
    sheet.put("model.model_type", biased_qwen ? "qwen2" : "llama",
              qwen ? "model.model_config.is_qwen2_config" : "model.model_config.is_llama_config",
              qwen && !biased ? "without biases" : "");
    if (!qwen) sheet.put("model.attention_bias", biased, "model.model_config.attention_bias");
    sheet.copy(kNanotronModel);
}

std::optional<std::int64_t> map_nanotron_layout(Sheet& sheet, const Wishes& wishes) {
    const std::int64_t tensor = copied_degree(sheet, "parallelism.tp", "layout.tensor_parallel");
    const std::int64_t pipeline =
        copied_degree(sheet, "parallelism.pp", "layout.pipeline_parallel");
    const std::int64_t context =
        copied_degree(sheet, "parallelism.context_parallel_size", "layout.context_parallel");
    if (context > 1)
        sheet.put("layout.context_algorithm", "ring", "parallelism.context_parallel_size");
    const auto replicas = sheet.whole({"parallelism.dp"});
    Ranks ranks = {wishes.gpus, "--gpus", "parallelism.dp is not given"};
    if (replicas && *replicas > 0 && *replicas <= (1 << 20)) {
        const std::int64_t all = *replicas * tensor * pipeline * context;
        if (wishes.gpus && *wishes.gpus != all)
            sheet.report("I004", "parallelism.dp", "the degrees do not make the ranks of --gpus")
                .arithmetic = fmt::format("dp × tp × pp × cp = {} × {} × {} × {} = {}, --gpus = {}",
                                          *replicas, tensor, pipeline, context, all, *wishes.gpus);
        ranks = {all, "parallelism.dp", ""};
    }
    const auto data = settle_data_parallel(sheet, ranks, tensor, pipeline, context);
    const auto engine = sheet.word({"parallelism.pp_engine"}, {"1f1b", "afab"});
    const char* schedule = engine == "1f1b" ? "1f1b" : "gpipe";
    if (engine)
        sheet.put("layout.schedule", schedule, "parallelism.pp_engine");
    else
        sheet.put_usual("layout.schedule", schedule, "parallelism.pp_engine");
    const auto mode = sheet.word({"parallelism.tp_mode"}, {"ALL_REDUCE", "REDUCE_SCATTER"});
    const bool sequence = mode == "REDUCE_SCATTER" && tensor > 1;
    if (mode)
        sheet.put("layout.sequence_parallel", sequence, "parallelism.tp_mode");
    else
        sheet.put_usual("layout.sequence_parallel", sequence, "parallelism.tp_mode");
    const char* const gathers = "parallelism.tp_recompute_allgather";
    const auto again = sheet.boolean({gathers});
    if (sequence && again)
        sheet.put("training.gathered_inputs", *again ? "again" : "kept", gathers);
    else if (sequence)
        sheet.put_usual("training.gathered_inputs", "again", gathers);
    const auto recompute = sheet.boolean({"parallelism.recompute_layer"});
    if (recompute)
        sheet.put("layout.recompute", *recompute ? "full" : "none", "parallelism.recompute_layer");
    else
        sheet.put_usual("layout.recompute", "none", "parallelism.recompute_layer");
    return data;
}

void map_nanotron_batch(Sheet& sheet, const std::optional<std::int64_t>& data) {
    const auto micro = sheet.whole({"tokens.micro_batch_size"});
    const auto steps = sheet.whole({"tokens.batch_accumulation_per_replica"});
    const auto sequence = sheet.whole({"tokens.sequence_length"});
    const auto iterations = sheet.whole({"tokens.train_steps"});
    for (const char* key : {"tokens.sequence_length", "tokens.micro_batch_size"})
        if (!sheet.has(key))
            sheet.miss(key == std::string("tokens.micro_batch_size") ? "layout.micro_batch_size"
                                                                     : "training.sequence_length",
                       fmt::format("{} is not given", key));
    if (!micro || !data || *micro < 1 || *micro > (1 << 20) ||
        (steps && (*steps < 1 || *steps > (1 << 20)))) {
        sheet.miss("layout.global_batch_size",
                   "it is tokens.micro_batch_size × batch_accumulation_per_replica × dp");
        return;
    }
    const std::int64_t global = *micro * steps.value_or(1) * *data;
    sheet.put("layout.global_batch_size", global,
              "tokens.micro_batch_size, tokens.batch_accumulation_per_replica",
              fmt::format("{} × {} × {} data-parallel ranks", *micro, steps.value_or(1), *data));
    if (sequence && iterations)
        sheet.put("training.tokens",
                  plain(static_cast<double>(*iterations) * static_cast<double>(global) *
                        static_cast<double>(*sequence)),
                  "tokens.train_steps", "steps × global batch × sequence length");
}

void map_nanotron_precision(Sheet& sheet) {
    const auto type = sheet.word({"model.dtype"}, {"bfloat16", "float16", "float32"});
    const char* precision = type == "float16" ? "fp16" : type == "float32" ? "fp32" : "bf16";
    if (type)
        sheet.put("training.precision", precision, "model.dtype");
    else
        sheet.put_usual("training.precision", precision, "model.dtype");
    const auto wide = sheet.boolean({"optimizer.accumulate_grad_in_fp32"});
    const bool sums = wide.value_or(false) && type != "float32";
    sheet.put("training.gradient_dtype", sums ? "fp32" : "same",
              "optimizer.accumulate_grad_in_fp32");
    // PyTorch's bucket_cap_mb counts 2^20 bytes.
    const auto bucket = sheet.number({"model.ddp_bucket_cap_mb"});
    const Json size = plain(bucket.value_or(25) * 1048576 / 1e6);
    if (bucket)
        sheet.put("training.gradient_bucket_mb", size, "model.ddp_bucket_cap_mb", "of 2^20 bytes");
    else
        sheet.put_usual("training.gradient_bucket_mb", size, "model.ddp_bucket_cap_mb");
}

void map_nanotron_optimizer(Sheet& sheet) {
    const auto name = sheet.text({"optimizer.optimizer_factory.name"});
    if (name && *name != "adamW" && *name != "adamw")
        sheet.refuse("optimizer.optimizer_factory.name", "only AdamW is modelled");
    else
        sheet.put("training.optimizer.kind", "adamw", "optimizer.optimizer_factory.name");
    const char* const key = "optimizer.learning_rate_scheduler.lr_decay_style";
    const auto decay = sheet.text({key});
    if (decay == "cosine")
        sheet.put("training.schedule.decay", "cosine", key);
    else
        sheet.put_usual("training.schedule.decay", "constant", key,
                        "Orrery decays by a cosine or not at all; no step's work depends on it");
    if (decay && *decay != "cosine") sheet.ignore(key, "decays by a cosine or not at all");
}

}  // namespace

Imported import_nanotron(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    std::vector<Setting> settings = read_yaml(text, file, out.errors);
    out.unreadable = !out.errors.empty();
    if (out.unreadable) return out;
    leave_nulls(settings, out);
    Sheet sheet(file, std::move(settings), out);
    map_nanotron_model(sheet, wishes);
    const auto data = map_nanotron_layout(sheet, wishes);
    sheet.copy(kNanotronTraining);
    map_nanotron_batch(sheet, data);
    map_nanotron_precision(sheet);
    map_nanotron_optimizer(sheet);
    sheet.put_usual("training.framework", "nanotron", "nanotron");
    sheet.settle(kNanotronIgnored, kNanotronUnsupported);
    return out;
}

}  // namespace orrery::plan::imports
