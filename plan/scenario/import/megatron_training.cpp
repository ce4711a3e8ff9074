// Batch, precision, optimizer and kernels of a Megatron-LM command line.
#include <fmt/format.h>

#include <cmath>

#include "plan/scenario/import/megatron_parts.hpp"
#include "plan/scenario/import/ranks.hpp"

namespace orrery::plan::imports {
namespace {

using Kind = Direct::Kind;

constexpr Direct kOptimizer[] = {
    {"--adam-beta1", "training.optimizer.beta1", Kind::number, "0.9"},
    {"--adam-beta2", "training.optimizer.beta2", Kind::number, "0.999"},
    {"--adam-eps", "training.optimizer.epsilon", Kind::number, "1e-8"},
    {"--weight-decay", "training.optimizer.weight_decay", Kind::number, "0.01"},
    {"--clip-grad", "training.optimizer.clip_norm", Kind::number, "1.0"},
    {"--min-lr", "training.schedule.min_learning_rate", Kind::number, "0.0"},
    {"--seed", "training.seed", Kind::whole, "1234"},
};

constexpr Direct kLossScaleFlags[] = {
    {"--initial-loss-scale", "training.loss_scale.initial", Kind::number, "4294967296"},
    {"--loss-scale-window", "training.loss_scale.growth_interval", Kind::whole, "1000"},
    {"--hysteresis", "training.loss_scale.hysteresis", Kind::whole, "2"},
    {"--min-loss-scale", "training.loss_scale.minimum", Kind::number, "1"},
};

// --rampup-batch-size START INCREMENT SAMPLES.
bool map_ramp(Sheet& sheet) {
    const Setting* ramp = sheet.find({"--rampup-batch-size"});
    if (ramp == nullptr) return false;
    const char* const keys[] = {"start_batch_size", "increment", "over_samples"};
    if (!ramp->value.is_array() || ramp->value.size() != 3) {
        sheet.report("I002", ramp->key, "--rampup-batch-size takes three whole numbers");
        return true;
    }
    for (std::size_t i = 0; i < 3; ++i) {
        const Json number = Json::parse(ramp->value[i].get<std::string>(), nullptr, false);
        if (!number.is_number_integer()) {
            sheet.report("I002", ramp->key, "--rampup-batch-size takes three whole numbers");
            return true;
        }
        sheet.put(std::string("training.batch_ramp.") + keys[i], number, ramp->key);
    }
    return true;
}

void map_length(Sheet& sheet, const MegatronFacts& facts) {
    const auto iterations = sheet.whole({"--train-iters"});
    const auto samples = sheet.whole({"--train-samples"});
    const auto tokens = [&](double sequences, const char* from) {
        if (facts.sequence && sequences > 0)
            sheet.put("training.tokens", plain(sequences * static_cast<double>(*facts.sequence)),
                      from, "samples × sequence length");
    };
    if (iterations) {
        sheet.put("run.steps", *iterations, "--train-iters");
        if (facts.global_batch)
            tokens(static_cast<double>(*iterations) * static_cast<double>(*facts.global_batch),
                   "--train-iters");
    }
    if (samples) tokens(static_cast<double>(*samples), "--train-samples");
}

void map_warmup(Sheet& sheet, const MegatronFacts& facts) {
    const auto steps = sheet.whole({"--lr-warmup-iters"});
    const auto samples = sheet.whole({"--lr-warmup-samples"});
    const auto share = sheet.number({"--lr-warmup-fraction"});
    const auto decay = sheet.whole({"--lr-decay-iters"});
    const auto iterations = sheet.whole({"--train-iters"});
    const std::string to = "training.schedule.warmup_steps";
    if (share && (decay || iterations)) {
        const auto over = static_cast<double>(decay ? *decay : *iterations);
        sheet.put(to, static_cast<std::int64_t>(*share * over), "--lr-warmup-fraction",
                  fmt::format("of {} steps", over));
    } else if (samples && facts.global_batch) {
        sheet.put(to, *samples / *facts.global_batch, "--lr-warmup-samples",
                  "samples / global batch");
    } else if (steps) {
        sheet.put(to, *steps, "--lr-warmup-iters");
    } else if (samples || share) {
        sheet.ignore("--lr-warmup-samples", "steps do not follow from it while the batch grows");
        sheet.ignore("--lr-warmup-fraction", "steps do not follow from it in samples");
    } else {
        sheet.put_usual(to, 0, "--lr-warmup-iters");
    }
    sheet.ignore("--lr-decay-iters", "a learning rate decays until the last step of the run");
}

void map_attention(Sheet& sheet, const MegatronFacts& facts) {
    const auto backend =
        sheet.word({"--attention-backend"}, {"auto", "flash", "fused", "unfused", "local"});
    const auto implementation =
        sheet.word({"--transformer-impl"}, {"transformer_engine", "local", "inference_optimized"});
    const bool flash_asked =
        sheet.flag({"--use-flash-attn", "--use-flash-attn-v1", "--use-flash-attn-v2"});
    bool flash = flash_asked || (!facts.of_2021 && implementation != "local");
    std::string from = flash_asked      ? "--use-flash-attn"
                       : implementation ? "--transformer-impl"
                                        : "";
    if (backend) {
        from = "--attention-backend";
        flash = *backend != "unfused" && *backend != "local";
    }
    const char* kernel = flash ? "flash" : "unfused";
    if (from.empty())
        sheet.put_usual("training.attention_kernel", kernel, "--attention-backend");
    else
        sheet.put("training.attention_kernel", kernel, from);
    if (flash)
        for (const char* option :
             {"--no-masked-softmax-fusion", "--no-scaled-masked-softmax-fusion"})
            sheet.ignore(option, "fused attention has no kernel for the softmax alone");
    if (!sheet.flag({"--attention-softmax-in-fp32"})) return;
    if (flash)
        sheet.ignore("--attention-softmax-in-fp32", "flash attention's softmax is in fp32");
    else
        sheet.refuse("--attention-softmax-in-fp32", "scores are of the precision of the training");
}

}  // namespace

void map_megatron_batch(Sheet& sheet, MegatronFacts& facts) {
    facts.sequence = sheet.whole({"--seq-length", "--encoder-seq-length"});
    if (facts.sequence)
        sheet.put("training.sequence_length", *facts.sequence, "--seq-length");
    else if (!sheet.has("--seq-length"))
        sheet.miss("training.sequence_length", "--seq-length is not given");
    const auto micro = sheet.whole({"--micro-batch-size"});
    if (micro)
        sheet.put("layout.micro_batch_size", *micro, "--micro-batch-size");
    else if (!sheet.has("--micro-batch-size"))
        sheet.miss("layout.micro_batch_size", "--micro-batch-size is not given", "1");
    auto global = sheet.whole({"--global-batch-size"});
    if (global) {
        sheet.put("layout.global_batch_size", *global, "--global-batch-size");
    } else if (micro && facts.data) {
        global = *micro * *facts.data;
        sheet.put_usual("layout.global_batch_size", *global, "--global-batch-size",
                        "micro-batch × data-parallel ranks");
    } else if (!sheet.has("--global-batch-size")) {
        sheet.miss("layout.global_batch_size",
                   "--global-batch-size is not given: micro-batch × data-parallel ranks");
    }
    if (global && micro && facts.data)
        check_batch(sheet, "--global-batch-size", *global, *micro, *facts.data);
    if (!map_ramp(sheet)) facts.global_batch = global;
    map_length(sheet, facts);
}

// --fp8-format FORMAT --fp8-recipe RECIPE beside --bf16. Its two formats have one cost.
bool map_eight_bits(Sheet& sheet, bool bf16) {
    const auto format = sheet.word({"--fp8-format"}, {"hybrid", "e4m3"});
    if (!format) {
        sheet.ignore("--fp8-recipe", "read where --fp8-format turns FP8 on");
        return false;
    }
    if (!bf16) {
        sheet.refuse("--fp8-format", "FP8 is modelled beside bf16");
        return false;
    }
    const auto recipe =
        sheet.word({"--fp8-recipe"}, {"delayed", "tensorwise", "blockwise", "mxfp8"});
    sheet.put("training.precision", "fp8", "--fp8-format", "the rest of --bf16");
    if (recipe)
        sheet.put("training.fp8_recipe", *recipe, "--fp8-recipe");
    else
        sheet.put_usual("training.fp8_recipe", "delayed", "--fp8-recipe");
    if (sheet.flag({"--fp8-param-gather"}))
        sheet.put("training.fp8_param_gather", true, "--fp8-param-gather");
    return true;
}

void map_megatron_precision(Sheet& sheet, MegatronFacts& facts) {
    const bool bf16 = sheet.flag({"--bf16"});
    facts.fp16 = sheet.flag({"--fp16"});
    if (bf16 && facts.fp16) sheet.report("I004", "--fp16", "--bf16 and --fp16 exclude each other");
    const bool eight_bits = map_eight_bits(sheet, bf16 && !facts.fp16);
    if (!eight_bits && (bf16 || facts.fp16))
        sheet.put("training.precision", bf16 ? "bf16" : "fp16", bf16 ? "--bf16" : "--fp16");
    else if (!eight_bits)
        sheet.put_usual("training.precision", "fp32", "--bf16, --fp16");
    if (facts.fp16 && sheet.has("--loss-scale")) {
        sheet.copy({"--loss-scale", "training.loss_scale", Kind::number});
        for (const Direct& direct : kLossScaleFlags)
            sheet.ignore(direct.key, "--loss-scale is constant");
    } else if (facts.fp16) {
        sheet.copy(kLossScaleFlags);
    } else {
        sheet.ignore("--loss-scale", "only gradients in fp16 need it");
        for (const Direct& direct : kLossScaleFlags)
            sheet.ignore(direct.key, "only gradients in fp16 need it");
    }
    const bool wide = sheet.flag({"--accumulate-allreduce-grads-in-fp32"});
    if (sheet.flag({"--grad-reduce-in-bf16"})) {
        sheet.put("training.gradient_dtype", "same", "--grad-reduce-in-bf16");
        sheet.ignore("--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16 is given");
    } else if (wide) {
        sheet.put("training.gradient_dtype", bf16 || facts.fp16 ? "fp32" : "same",
                  "--accumulate-allreduce-grads-in-fp32");
    } else {
        sheet.put_usual("training.gradient_dtype", bf16 ? "fp32" : "same",
                        "--accumulate-allreduce-grads-in-fp32", bf16 ? "--bf16 implies it" : "");
    }
}

namespace {

// Read where the optimizer is precision-aware (megatron/training/arguments.py).
void map_states(Sheet& sheet) {
    const bool aware = sheet.flag({"--use-precision-aware-optimizer"});
    const auto state = [&](const char* option, const char* to,
                           const std::vector<std::string>& types) {
        const auto type = sheet.word({option}, types);
        if (type && aware)
            sheet.put(to, *type, option);
        else
            sheet.ignore(option, "the optimizer is not aware of precisions");
    };
    const std::vector<std::string> moments = {"fp32", "fp16", "bf16", "fp8"};
    state("--exp-avg-dtype", "training.optimizer.exp_avg_dtype", moments);
    state("--exp-avg-sq-dtype", "training.optimizer.exp_avg_sq_dtype", moments);
    state("--main-params-dtype", "training.optimizer.main_params_dtype", {"fp32", "fp16"});
    sheet.ignore("--main-grads-dtype", "gradients are stepped from as they are reduced");
}

}  // namespace

void map_megatron_optimizer(Sheet& sheet, const MegatronFacts& facts) {
    const auto kind = sheet.text({"--optimizer"});
    if (kind && *kind != "adam")
        sheet.refuse("--optimizer", "only AdamW is modelled");
    else
        sheet.put_usual("training.optimizer.kind", "adamw", "--optimizer");
    if (sheet.copy({"--lr", "training.optimizer.learning_rate", Kind::number}).is_null())
        sheet.miss("training.optimizer.learning_rate", "--lr is not given", "3e-4");
    sheet.copy(kOptimizer);
    map_states(sheet);
    map_warmup(sheet, facts);
    const auto decay = sheet.text({"--lr-decay-style"});
    if (decay == "cosine" || decay == "constant") {
        sheet.put("training.schedule.decay", *decay, "--lr-decay-style");
        return;
    }
    sheet.put_usual("training.schedule.decay", "constant", "--lr-decay-style",
                    "Orrery decays by a cosine or not at all; no step's work depends on it");
    if (decay)
        sheet.ignore("--lr-decay-style",
                     "decays by a cosine or not at all; no step's work "
                     "depends on it");
}

namespace {

// Whether layers are captured whole, or the step; parts of layers are not modelled.
void map_graphs(Sheet& sheet) {
    const auto impl = sheet.word({"--cuda-graph-impl"}, {"none", "local", "transformer_engine"});
    const bool local = sheet.flag({"--enable-cuda-graph"});
    const bool external = sheet.flag({"--external-cuda-graph"});
    const Setting* scope = sheet.find({"--cuda-graph-scope", "--cuda-graph-modules"});
    const char* const from = impl       ? "--cuda-graph-impl"
                             : local    ? "--enable-cuda-graph"
                             : external ? "--external-cuda-graph"
                                        : nullptr;
    if (from == nullptr || impl == "none") {
        if (scope != nullptr) sheet.ignore(scope->key, "nothing is captured");
        return;
    }
    const auto is = [&](const char* word) {
        return scope->value == word || scope->value == Json::array({word});
    };
    if (scope == nullptr || is("full"))
        sheet.put("training.cuda_graphs", "per_layer", from);
    else if (is("full_iteration"))
        sheet.put("training.cuda_graphs", "full_iteration", scope->key);
    else
        sheet.refuse(scope->key, "layers are captured whole or not at all");
}

void map_loss(Sheet& sheet) {
    constexpr const char* kFusion = "--cross-entropy-loss-fusion";
    const bool fused = sheet.flag({kFusion});
    const auto impl = sheet.word({"--cross-entropy-fusion-impl"}, {"native", "te"});
    if (!fused) {
        sheet.ignore("--cross-entropy-fusion-impl", "the loss is not fused");
        sheet.put_usual("training.loss_kernel", "composed", kFusion);
    } else if (impl == "te") {
        sheet.put("training.loss_logits", "fused", kFusion, "Transformer Engine's kernels");
    } else {
        sheet.put("training.loss_kernel", "fused", kFusion);
        sheet.put("training.loss_logits", "in_place", kFusion,
                  "copies that its compiled kernels keep differ by version and are not counted");
    }
}

}  // namespace

void map_megatron_kernels(Sheet& sheet, const MegatronFacts& facts) {
    map_attention(sheet, facts);
    map_graphs(sheet);
    map_loss(sheet);
    const auto overlap = [&](const char* option, const char* to) {
        if (sheet.flag({option}))
            sheet.put(to, true, option);
        else
            sheet.put_usual(to, false, option);
    };
    overlap("--overlap-grad-reduce", "training.overlap_gradient_reduce");
    overlap("--overlap-param-gather", "training.overlap_parameter_gather");
    overlap("--defer-embedding-wgrad-compute", "training.defer_embedding_gradient");
    if (sheet.flag({"--no-overlap-p2p-communication"}))
        sheet.put("training.overlap_pipeline_transfers", "never", "--no-overlap-p2p-communication");
    if (sheet.flag({"--no-scatter-gather-tensors-in-pipeline"}))
        sheet.put("training.scatter_gather_transfers", false,
                  "--no-scatter-gather-tensors-in-pipeline");
    if (sheet.flag({"--tp-comm-overlap"}) && facts.tensor > 1)
        sheet.put("training.tensor_overlap_parts", facts.tensor, "--tp-comm-overlap",
                  "a ring exchange has as many parts as ranks");
    else
        sheet.ignore("--tp-comm-overlap", "at tensor parallel 1 there is nothing to overlap");
    if (const auto elements = sheet.number({"--ddp-bucket-size"})) {
        const bool wide = !sheet.has("--grad-reduce-in-bf16") && !facts.fp16;
        const double bytes = wide || sheet.has("--accumulate-allreduce-grads-in-fp32") ? 4 : 2;
        sheet.put("training.gradient_bucket_mb", plain(*elements * bytes / 1e6),
                  "--ddp-bucket-size", fmt::format("elements of {} bytes", bytes));
        sheet.put("training.gradient_bucket_mb_per_rank", 0, "--ddp-bucket-size");
    }
    sheet.copy(
        {"--make-vocab-size-divisible-by", "training.vocabulary_multiple", Kind::whole, "128"});
}

}  // namespace orrery::plan::imports
