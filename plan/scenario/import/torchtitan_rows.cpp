// Names and defaults are those of pytorch/torchtitan, torchtitan/config/job_config.py and, before
// it, torchtitan/config_manager.py and the train_configs of 2024.
#include "plan/scenario/import/torchtitan_rows.hpp"

#include "plan/scenario/import/reasons.hpp"

namespace orrery::plan::imports {
namespace {

constexpr const char* kFp8Off = "read where a converter turns FP8 on";

constexpr Row kTorchtitanIgnored[] = {
    {"job.*", kStart},
    {"profiling.*", kProfile},
    {"metrics.*", kLog},
    {"model.tokenizer_path", kData},
    {"model.hf_assets_path", kData},
    {"model.print_after_conversion", kLog},
    {"training.dataset", kData},
    {"training.dataset_path", kData},
    {"training.gc_freq", "Python's garbage collection is not simulated"},
    {"training.gc_debug", "Python's garbage collection is not simulated"},
    {"dataset.*", kData},
    {"lr_scheduler.decay_ratio", kRate},
    {"checkpoint.*", kCheckpoint},
    {"comm.*", kStart},
    {"validation.*", kEvaluation},
    {"memory_estimation.*", "an estimate, no run"},
    {"experimental.custom_import", kStart},
    {"experimental.custom_args_module", kStart},
    {"debug.*", kStart},
    {"compile.*", "which parts are compiled is what the framework preset stands for"},
    {"float8.*", kFp8Off},
    {"quantize.*", kFp8Off},
    {"mx.*", kFp8Off},
    {"fault_tolerance.process_group*", kStart},
    {"activation_checkpoint.early_stop", kLog},
    {"activation_checkpoint.preserve_rng_state", "there is no dropout to repeat"},
    {"activation_checkpoint.determinism_check", kLog},
    {"activation_checkpoint.debug", kLog},
};

constexpr const char* kCompiled = "compiled kernels are not modelled";

constexpr Row kTorchtitanUnsupported[] = {
    {"training.deterministic", kNotModelled, "false"},
    {"debug.deterministic", kNotModelled, "false"},
    {"training.mixed_precision_reduce", "gradients are reduced in fp32", "\"float32\""},
    {"training.enable_loss_parallel", "the loss is computed on shares of the vocabulary", "true"},
    {"parallelism.disable_loss_parallel", "the loss is computed on shares of the vocabulary",
     "false"},
    {"parallelism.enable_compiled_autograd", kCompiled, "false"},
    {"experimental.enable_compiled_autograd", kCompiled, "false"},
    {"parallelism.expert_parallel_degree", kMoe, "1", Changes::model},
    {"parallelism.expert_tensor_parallel_degree", kMoe, "1", Changes::model},
    {"parallelism.module_fqns_per_model_part", "give layout.layers_per_stage"},
    {"model.norm_type", "models like Llama have RMSNorm", "\"rmsnorm\"", Changes::model},
    {"model.print_after_conversion", kNotModelled},
    {"model.vocab_size_multiple_of", kNotModelled, "1"},
    {"model.use_flex_attn", kNotModelled, "false"},
    {"model.attn_mask_type", "attention is causal", "\"causal\""},
    {"optimizer.implementation", "the optimizer is one kernel per bucket", "\"fused\""},
    {"optimizer.fused", "the optimizer is one kernel per bucket", "true"},
    {"optimizer.early_step_in_backward", kNotModelled, "false"},
    {"fault_tolerance.enable", kNotModelled, "false"},
    {"fault_tolerance.semi_sync_method", kNotModelled},
    {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
     "recomputation by operations is not modelled"},
    {"activation_checkpoint.memory_budget", kNotModelled},
};

}  // namespace

std::span<const Row> torchtitan_ignored() {
    return kTorchtitanIgnored;
}

std::span<const Row> torchtitan_unsupported() {
    return kTorchtitanUnsupported;
}

}  // namespace orrery::plan::imports
