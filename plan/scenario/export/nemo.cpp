// A scenario as the keys of NeMo 1.x's YAML for its Megatron models, the inverse of
// plan/scenario/import/nemo.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/export/tools.hpp"

namespace orrery::plan::exports {
namespace {

void add_nemo_model(const Wanted& wanted, Settings& out) {
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string("model.") + key, std::move(value)});
    };
    add("mcore_gpt", true);
    add("transformer_engine", true);
    add("megatron_amp_O2", true);
    add("override_vocab_size", wanted.model().vocabulary);
    if (!wanted.model().learned_positions)
        add("max_position_embeddings", wanted.training().sequence_length);
    add("activation", wanted.flag("model.swiglu")         ? "fast-swiglu"
                      : wanted.flag("model.squared_relu") ? "squared-relu"
                                                          : "gelu");
    add("normalization", wanted.flag("model.apply_layernorm_1p")       ? "layernorm1p"
                         : wanted.is("model.normalization", "RMSNorm") ? "rmsnorm"
                                                                       : "layernorm");
    const bool biases = wanted.flag("model.add_bias_linear");
    add("bias", biases);
    if (wanted.flag("model.add_qkv_bias") != biases)
        add("qkv_bias", wanted.flag("model.add_qkv_bias"));
    add("share_embeddings_and_output_weights",
        !wanted.flag("model.untie_embeddings_and_output_weights"));
    add("position_embedding_type", wanted.at("model.position_embedding_type"));
    if (wanted.has("model.num_experts")) {
        add("num_moe_experts", wanted.at("model.num_experts"));
        add("moe_grouped_gemm",
            wanted.training().framework.expert_products == ExpertProducts::grouped);
        add("moe_permute_fusion",
            wanted.training().framework.permute_kernel == PermuteKernel::fused);
        add("expert_tensor_parallel_size", wanted.layout().expert_tensor_parallel);
        const ExpertRouting& routing = wanted.training().routing;
        add("moe_router_load_balancing_type", routing.balance_loss <= 0 ? "none"
                                              : routing.balance_of == BalanceUnit::micro_batch
                                                  ? "aux_loss"
                                                  : "seq_aux_loss");
        add("moe_token_dispatcher_type",
            wanted.layout().expert_dispatcher == ExpertDispatcher::alltoall       ? "alltoall"
            : wanted.layout().expert_dispatcher == ExpertDispatcher::deduplicated ? "flex"
                                                                                  : "allgather");
        if (routing.drops()) add("moe_expert_capacity_factor", plain(routing.capacity_factor));
    }
}

void add_nemo_layout(const Wanted& wanted, Settings& out) {
    const Layout& layout = wanted.layout();
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string("model.") + key, std::move(value)});
    };
    if (layout.virtual_pipeline > 1)
        add("virtual_pipeline_model_parallel_size", layout.virtual_pipeline);
    add("sequence_parallel", layout.sequence_parallel);
    add("micro_batch_size", layout.micro_batch_size);
    add("global_batch_size", layout.global_batch_size);
    if (layout.recompute == Recompute::selective)
        add("activations_checkpoint_granularity", "selective");
    if (layout.recompute == Recompute::full || layout.recompute == Recompute::every_k) {
        add("activations_checkpoint_granularity", "full");
        add("activations_checkpoint_method", "uniform");
        add("activations_checkpoint_num_layers",
            layers_per_group(layout, layout.layers_per_stage.front()));
    }
    if (wanted.training().cuda_graphs.scope != CudaGraphs::none) add("enable_cuda_graph", true);
}

void add_nemo_training(const Wanted& wanted, Settings& out) {
    const Training& training = wanted.training();
    const auto add = [&](const char* key, Json value) {
        out.push_back({std::string("model.") + key, std::move(value)});
    };
    if (training.precision == Precision::fp8) add("fp8", true);
    if (training.framework.attention_kernel == AttentionKernel::flash)
        add("use_flash_attention", true);
    add("optim.name",
        wanted.layout().zero_stage > 0 ? "mcore_distributed_optim" : "megatron_fused_adam");
    add("optim.betas",
        Json::array({plain(training.optimizer.beta1), plain(training.optimizer.beta2)}));
    add("optim.overlap_grad_sync", training.framework.overlap_gradient_reduce);
    add("optim.overlap_param_sync", training.framework.overlap_parameter_gather);
    if (training.schedule.decay == Decay::cosine) add("optim.sched.name", "CosineAnnealing");
    if (!training.lora.on()) return;
    add("peft.peft_scheme", "lora");
    Json targets = Json::array();
    const std::pair<bool, const char*> all[] = {{training.lora.qkv, "attention_qkv"},
                                                {training.lora.projection, "attention_dense"},
                                                {training.lora.fc1, "mlp_fc1"},
                                                {training.lora.fc2, "mlp_fc2"}};
    for (const auto& [is, name] : all)
        if (is) targets.push_back(name);
    add("peft.lora_tuning.target_modules", std::move(targets));
    add("peft.lora_tuning.alpha", plain(training.lora.alpha));
}

// Nested by its keys; lists on one line.
void write_yaml(const Json& tree, const std::string& indent, std::string& text) {
    for (const auto& [key, value] : tree.items()) {
        text += fmt::format("{}{}:", indent, key);
        if (!value.is_object()) {
            text += ' ' + value.dump() + '\n';
            continue;
        }
        text += '\n';
        write_yaml(value, indent + "  ", text);
    }
}

}  // namespace

Settings nemo_settings(const Wanted& wanted) {
    const Precision precision = wanted.training().precision;
    Settings out = {{"trainer.devices", wanted.ranks_per_node()},
                    {"trainer.num_nodes", wanted.nodes()},
                    {"trainer.precision", precision == Precision::fp16   ? Json("16-mixed")
                                          : precision == Precision::fp32 ? Json(32)
                                                                         : Json("bf16")}};
    out.push_back({"trainer.max_steps", std::max<std::int64_t>(1, wanted.steps())});
    add_nemo_model(wanted, out);
    add_nemo_layout(wanted, out);
    add_nemo_training(wanted, out);
    return out;
}

std::string nemo_text(const Settings& settings, const Wanted&, const Heading& heading) {
    Json tree = Json::object();
    for (const Written& setting : settings) {
        std::string pointer = '/' + setting.key;
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        tree[Json::json_pointer(pointer)] = setting.value;
    }
    std::string text = as_comments(heading.lines);
    write_yaml(tree, "", text);
    return text;
}

std::string nemo_start(const Wanted& wanted) {
    return fmt::format(
        "srun --nodes={} --ntasks-per-node={} python megatron_gpt_pretraining.py "
        "--config-path=FOLDER --config-name=FILE",
        wanted.nodes(), wanted.ranks_per_node());
}

}  // namespace orrery::plan::exports
