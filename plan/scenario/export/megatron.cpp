// A scenario as options of Megatron-LM's pretrain_gpt.py, the inverse of
// plan/scenario/import/megatron_*.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/ops/positions.hpp"
#include "plan/scenario/export/tools.hpp"

namespace orrery::plan::exports {
namespace {

constexpr const char* kVocabulary = "--vocab-size";

void add_if(Settings& out, bool holds, const char* key) {
    if (holds) out.push_back({key});
}

// yarn_scale(all, factor) is what the scaled scores are divided by.
double mscale_of_all(double scale, double factor, double attention) {
    if (factor <= 1) return scale;
    return (yarn_scale(scale, factor) / attention - 1) / (0.1 * std::log(factor));
}

void add_megatron_positions(const Wanted& wanted, Settings& out) {
    out.push_back({"--position-embedding-type", wanted.at("model.position_embedding_type")});
    out.push_back({"--max-position-embeddings",
                   std::max(wanted.training().sequence_length, wanted.model().max_positions)});
    const RopeScaling& scaling = wanted.model().attention().rope_scaling;
    const Json kind = wanted.at("model.rope_scaling.rope_type");
    if (kind == "llama3") {
        out.push_back({"--use-rope-scaling"});
        out.push_back({"--rope-scaling-factor", plain(scaling.factor)});
    } else if (kind == "yarn") {
        const double scale = scaling.mscale_all_dim;
        out.push_back({"--rotary-scaling-factor", plain(scaling.factor)});
        out.push_back({"--mscale", plain(scale)});
        out.push_back({"--mscale-all-dim",
                       plain(mscale_of_all(scale, scaling.factor, scaling.attention_factor))});
    }
}

void add_megatron_model(const Wanted& wanted, Settings& out) {
    const Json ffn = wanted.at("model.ffn_hidden_size");
    if (!ffn.is_null()) out.push_back({"--ffn-hidden-size", ffn});
    if (wanted.at("model.num_query_groups") != wanted.at("model.num_attention_heads")) {
        out.push_back({"--group-query-attention"});
        out.push_back({"--num-query-groups", wanted.at("model.num_query_groups")});
    }
    add_megatron_positions(wanted, out);
    out.push_back({"--normalization", wanted.at("model.normalization")});
    out.push_back({"--norm-epsilon", wanted.at("model.norm_epsilon")});
    add_if(out, wanted.flag("model.qk_layernorm"), "--qk-layernorm");
    const bool biases = wanted.flag("model.add_bias_linear");
    add_if(out, !biases, "--disable-bias-linear");
    add_if(out, !biases && wanted.flag("model.add_qkv_bias"), "--add-qkv-bias");
    add_if(out, wanted.flag("model.multi_latent_attention"), "--multi-latent-attention");
    if (wanted.has("model.mtp_num_layers"))
        out.push_back({"--mtp-num-layers", wanted.at("model.mtp_num_layers")});
}

// A number stands for every so many-th layer; of a list, runs of like entries, as Megatron-LM
// evaluates them: "[0]*3+[1]*58".
Json layer_frequency(const Json& wanted) {
    if (!wanted.is_array()) return wanted;
    std::string text;
    for (std::size_t at = 0; at < wanted.size();) {
        std::size_t end = at;
        while (end < wanted.size() && wanted[end] == wanted[at])
            ++end;
        text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", wanted[at].dump(), end - at);
        at = end;
    }
    return text;
}

void add_megatron_experts(const Wanted& wanted, Settings& out) {
    if (!wanted.has("model.num_experts")) return;
    const ExpertRouting& routing = wanted.training().routing;
    out.push_back({"--num-experts", wanted.at("model.num_experts")});
    if (wanted.has("model.moe_layer_freq"))
        out.push_back({"--moe-layer-freq", layer_frequency(wanted.at("model.moe_layer_freq"))});
    if (wanted.training().framework.expert_products == ExpertProducts::grouped)
        out.push_back({"--moe-grouped-gemm"});
    if (wanted.training().framework.permute_kernel == PermuteKernel::fused)
        out.push_back({"--moe-permute-fusion"});
    out.push_back({"--moe-router-dtype", "fp32"});
    out.push_back({"--moe-router-load-balancing-type",
                   routing.balance_loss <= 0                        ? "none"
                   : routing.balance_of == BalanceUnit::micro_batch ? "aux_loss"
                                                                    : "seq_aux_loss"});
    if (routing.drops())
        out.push_back({"--moe-expert-capacity-factor", plain(routing.capacity_factor)});
    out.push_back({"--expert-tensor-parallel-size", wanted.layout().expert_tensor_parallel});
    switch (wanted.layout().expert_dispatcher) {
        case ExpertDispatcher::alltoall:
            out.push_back({"--moe-token-dispatcher-type", "alltoall"});
            break;
        case ExpertDispatcher::deduplicated:
            out.push_back({"--moe-token-dispatcher-type", "flex"});
            out.push_back({"--moe-flex-dispatcher-backend", "deepep"});
            break;
        case ExpertDispatcher::allgather:
            out.push_back({"--moe-token-dispatcher-type", "allgather"});
            break;
    }
}

// Layers of stages by letters: the embedding first, further tokens and the loss last.
std::string stage_letters(const Layout& layout, std::int64_t mtp_layers) {
    std::string text = "E";
    for (std::size_t stage = 0; stage < layout.layers_per_stage.size(); ++stage) {
        if (stage > 0) text += '|';
        if (layout.layers_per_stage[stage] > 0)
            text += fmt::format("t*{}", layout.layers_per_stage[stage]);
    }
    if (mtp_layers > 0) text += fmt::format("m*{}", mtp_layers);
    return text + 'L';
}

void add_megatron_stages(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    const auto& stages = layout.layers_per_stage;
    if (layout.pipeline_parallel == 1) return;
    const bool alike =
        std::adjacent_find(stages.begin(), stages.end(), std::not_equal_to<>()) == stages.end();
    if (!alike)
        out.push_back(
            {"--pipeline-model-parallel-layout", stage_letters(layout, wanted.model().mtp_layers)});
    else if (layout.virtual_pipeline > 1)
        out.push_back({"--num-layers-per-virtual-pipeline-stage", stages.front()});
}

void add_megatron_sharding(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    if (layout.zero_stage == 3 && !layout.reshard_after_forward) {
        out.push_back({"--use-torch-fsdp2"});
        out.push_back({"--torch-fsdp2-no-reshard-after-forward"});
        out.push_back({"--no-gradient-accumulation-fusion"});  // Megatron-LM demands it with that
    } else if (layout.zero_stage >= 1) {
        out.push_back({"--use-distributed-optimizer"});
        if (layout.zero_stage >= 2) {
            out.push_back({"--use-megatron-fsdp"});
            out.push_back({"--data-parallel-sharding-strategy",
                           layout.zero_stage == 2 ? "optim_grads" : "optim_grads_params"});
            out.push_back({"--ckpt-format", "fsdp_dtensor"});
        }
    }
    if (layout.zero_stage > 0 && layout.zero_group_size > 0)
        out.push_back({"--num-distributed-optimizer-instances",
                       layout.data_ranks() / layout.zero_group_size});
    add_if(out, layout.offload.optimizer == KeptOn::host, "--optimizer-cpu-offload");
}

void add_megatron_recompute(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    if (layout.recompute == Recompute::selective) {
        out.push_back({"--recompute-granularity", "selective"});
        if (wanted.has("layout.recompute_modules"))
            out.push_back({"--recompute-modules", wanted.at("layout.recompute_modules")});
    } else if (layout.recompute == Recompute::full || layout.recompute == Recompute::every_k) {
        out.push_back({"--recompute-granularity", "full"});
        out.push_back({"--recompute-method", "uniform"});
        out.push_back(
            {"--recompute-num-layers", layers_per_group(layout, layout.layers_per_stage.front())});
    }
}

void add_megatron_layout(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    if (layout.context_parallel > 1)
        out.push_back({"--cp-comm-type", layout.context_algorithm == ContextAlgorithm::ring ? "p2p"
                                         : layout.context_algorithm == ContextAlgorithm::all_gather
                                             ? "all_gather"
                                             : "a2a"});
    add_if(out, layout.sequence_parallel, "--sequence-parallel");
    add_megatron_stages(wanted, out);
    add_megatron_sharding(wanted, out);
    add_megatron_recompute(wanted, out);
    out.push_back({"--micro-batch-size", layout.micro_batch_size});
    out.push_back({"--global-batch-size", layout.global_batch_size});
    const BatchRamp& ramp = wanted.training().batch_ramp;
    if (ramp.start_batch_size > 0)
        out.push_back({"--rampup-batch-size",
                       Json::array({ramp.start_batch_size, ramp.increment, ramp.over_samples})});
}

// The length in steps, or in samples where tokens are said alone; warm-up in the same.
void add_megatron_length(const Wanted& wanted, Settings& out) {
    const std::int64_t warmup = wanted.training().schedule.warmup_steps;
    const std::int64_t global = wanted.layout().global_batch_size;
    const bool ramp = wanted.training().batch_ramp.start_batch_size > 0;
    if (wanted.scenario().run.steps > 0 || wanted.training().tokens <= 0) {
        out.push_back({"--train-iters", std::max<std::int64_t>(wanted.steps(), 1)});
        out.push_back({"--lr-warmup-iters", warmup});
        return;
    }
    const double samples =
        wanted.training().tokens / static_cast<double>(wanted.training().sequence_length);
    out.push_back({"--train-samples", static_cast<std::int64_t>(samples)});
    if (warmup > 0 || !ramp) out.push_back({"--lr-warmup-samples", warmup * global});
}

void add_megatron_precision(const Wanted& wanted, Settings& out) {
    const Precision precision = wanted.training().precision;
    const bool narrow = precision == Precision::bf16 || precision == Precision::fp8;
    add_if(out, narrow, "--bf16");
    add_if(out, precision == Precision::fp16, "--fp16");
    if (precision == Precision::fp8) {
        out.push_back({"--fp8-format", "hybrid"});
        out.push_back({"--fp8-recipe", wanted.at("training.fp8_recipe")});
        add_if(out, wanted.training().fp8.parameters, "--fp8-param-gather");
    }
    const Json sums = wanted.at("training.gradient_dtype");
    const bool wide = sums == "fp32";
    add_if(out, narrow && !wide, "--grad-reduce-in-bf16");
    add_if(out, precision == Precision::fp16 && wide, "--accumulate-allreduce-grads-in-fp32");
    const std::pair<const char*, const char*> states[] = {
        {"--exp-avg-dtype", "training.optimizer.exp_avg_dtype"},
        {"--exp-avg-sq-dtype", "training.optimizer.exp_avg_sq_dtype"},
        {"--main-params-dtype", "training.optimizer.main_params_dtype"}};
    bool aware = wanted.layout().offload.optimizer == KeptOn::host;  // Megatron-LM demands it
    add_if(out, aware, "--use-precision-aware-optimizer");
    for (const auto& [option, key] : states) {
        if (!wanted.has(key) || wanted.is(key, "same") || wanted.is(key, "none")) continue;
        add_if(out, !aware, "--use-precision-aware-optimizer");
        aware = true;
        out.push_back({option, wanted.at(key)});
    }
}

void add_megatron_kernels(const Wanted& wanted, Settings& out) {
    const Framework& framework = wanted.training().framework;
    const Layout& layout = wanted.layout();
    out.push_back({"--attention-backend",
                   framework.attention_kernel == AttentionKernel::flash ? "flash" : "unfused"});
    add_if(out, framework.overlap_gradient_reduce, "--overlap-grad-reduce");
    // Megatron-LM takes it with the two that it needs alone.
    add_if(out,
           framework.overlap_parameter_gather && framework.overlap_gradient_reduce &&
               layout.zero_stage > 0,
           "--overlap-param-gather");
    add_if(out, framework.defer_embedding_gradient, "--defer-embedding-wgrad-compute");
    add_if(out, framework.tensor_overlap_parts > 1 && layout.tensor_parallel > 1,
           "--tp-comm-overlap");
    if (wanted.given("training.overlap_pipeline_transfers"))
        add_if(out, framework.overlap_pipeline_transfers == TransferOverlap::never,
               "--no-overlap-p2p-communication");
    if (wanted.given("training.loss_logits") && framework.loss_logits == LossLogits::fused) {
        out.push_back({"--cross-entropy-loss-fusion"});
        out.push_back({"--cross-entropy-fusion-impl", "te"});
    } else if (framework.loss_logits == LossLogits::in_place ||
               framework.loss_logits == LossLogits::fused) {
        add_if(out, framework.loss_kernel == LossKernel::fused, "--cross-entropy-loss-fusion");
    }
    if (wanted.given("training.gradient_bucket_mb"))
        out.push_back(
            {"--ddp-bucket-size", static_cast<std::int64_t>(framework.gradient_bucket_mb * 1e6 /
                                                            framework.gradient_bytes)});
    const CudaGraphs graphs = wanted.training().cuda_graphs.scope;
    if (graphs == CudaGraphs::none) return;
    out.push_back({"--cuda-graph-impl", "local"});
    if (graphs == CudaGraphs::full_iteration)
        out.push_back({"--cuda-graph-scope", "full_iteration"});
}

// Megatron-LM's own stand-in for data, whose tokenizer adds one token.
void add_megatron_data(const Wanted& wanted, Settings& out) {
    out.push_back({"--mock-data"});
    out.push_back({"--tokenizer-type", "NullTokenizer"});
    out.push_back({kVocabulary, wanted.model().vocabulary - 1});
    out.push_back({"--log-interval", 1});
    out.push_back({"--eval-iters", 0});
}

std::string quoted(const std::string& word) {
    const bool plain_word = !word.empty() && word.find_first_not_of(
                                                 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                                                 "XYZ0123456789_-./=,:+@%") == std::string::npos;
    return plain_word ? word : '\'' + word + '\'';  // no value here has a quote in it
}

std::string words_of(const Written& setting) {
    std::string text = setting.key;
    if (setting.value == true) return text;
    const Json all = setting.value.is_array() ? setting.value : Json::array({setting.value});
    for (const Json& word : all)
        text += ' ' + quoted(word.is_string() ? word.get<std::string>() : word.dump());
    return text;
}

}  // namespace

Settings megatron_settings(const Wanted& wanted) {
    Settings out;
    add_megatron_model(wanted, out);
    add_megatron_experts(wanted, out);
    add_megatron_layout(wanted, out);
    out.push_back({"--seq-length", wanted.training().sequence_length});
    add_megatron_length(wanted, out);
    out.push_back({"--lr-decay-style", wanted.at("training.schedule.decay")});
    add_megatron_precision(wanted, out);
    add_megatron_kernels(wanted, out);
    add_megatron_data(wanted, out);
    return out;
}

std::string megatron_text(const Settings& settings, const Wanted& wanted, const Heading& heading) {
    std::string text = "#!/bin/bash\n" + as_comments(heading.lines) + "set -euo pipefail\n";
    // So that communication is issued before what it runs beside; FSDP refuses it.
    if (wanted.layout().zero_stage < 2) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
    Settings of_data;
    add_megatron_data(wanted, of_data);
    // What only says more of another setting becomes no key; nor does what a run does besides.
    const auto part_of = [&](const std::string& key) -> std::string {
        if (std::any_of(of_data.begin(), of_data.end(),
                        [&](const Written& one) { return one.key == key; }))
            return "data";
        const auto found = heading.parts.find(key);
        return found == heading.parts.end() || found->second == "run" ? "training" : found->second;
    };
    const std::pair<const char*, const char*> arrays[] = {
        {"model", "MODEL"}, {"layout", "LAYOUT"}, {"training", "TRAINING"}, {"data", "DATA"}};
    std::string all;
    for (const auto& [part, name] : arrays) {
        std::string words;
        for (const Written& setting : settings)
            if (part_of(setting.key) == part) words += "    " + words_of(setting) + '\n';
        if (words.empty()) continue;
        if (std::string("data") == part)
            text += "\n# Made-up tokens: --data-path and your tokenizer's options come instead.";
        text += fmt::format("\n{}=(\n{})\n", name, words);
        all += fmt::format(" \"${{{}[@]}}\"", name);
    }
    return text +
           fmt::format(
               "\ntorchrun --nproc_per_node={} --nnodes={} --node_rank=${{NODE_RANK:-0}} \\\n"
               "    --master_addr=${{MASTER_ADDR:-localhost}} "
               "--master_port=${{MASTER_PORT:-6000}} \\\n"
               "    pretrain_gpt.py{}\n",
               wanted.ranks_per_node(), wanted.nodes(), all);
}

}  // namespace orrery::plan::exports
