// Names and defaults are those of deepspeedai/DeepSpeed: deepspeed/runtime/{constants,config}.py,
// deepspeed/runtime/zero/{config,offload_config}.py.
#include "plan/scenario/import/deepspeed_rows.hpp"

#include "plan/scenario/import/reasons.hpp"

namespace orrery::plan::imports {
namespace {

constexpr const char* kPinned = "copies of pinned memory are what the cluster's host_memory says";
constexpr const char* kScale = "a factor of the same size";

constexpr Row kDeepSpeedIgnored[] = {
    {"steps_per_print", kLog},
    {"wall_clock_breakdown", kLog},
    {"memory_breakdown", kLog},
    {"dump_state", kLog},
    {"tensorboard.*", kLog},
    {"wandb.*", kLog},
    {"comet.*", kLog},
    {"csv_monitor.*", kLog},
    {"comms_logger.*", kLog},
    {"flops_profiler.*", "profiling"},
    {"autotuning.*", "chooses a config, is none"},
    {"checkpoint.*", kCheckpoint},
    {"nebula.*", kCheckpoint},
    {"zero_allow_untested_optimizer", "a check"},
    {"zero_force_ds_cpu_optimizer", "a check"},
    {"prescale_gradients", kScale},
    {"gradient_predivide_factor", kScale},
    {"dataloader_drop_last", "which samples are read changes no step"},
    {"optimizer.params.adam_w_mode", "Adam is AdamW"},
    {"optimizer.params.bias_correction", "a factor of the same size"},
    {"optimizer.params.torch_adam", "which library computes the optimizer is not modelled"},
    {"optimizer.params.fused", "which library computes the optimizer is not modelled"},
    {"optimizer.legacy_fusion", "which library computes the optimizer is not modelled"},
    {"scheduler.params.*", kRate},
    {"fp16.auto_cast", "inputs are cast once"},
    {"fp16.consecutive_hysteresis", "a rule of the loss scale"},
    {"fp16.fused_mode", "a rule of the loss scale"},
    {"zero_optimization.offload_optimizer.pin_memory", kPinned},
    {"zero_optimization.offload_optimizer.nvme_path", kPinned},
    {"zero_optimization.offload_param.pin_memory", kPinned},
    {"zero_optimization.offload_param.nvme_path", kPinned},
    {"zero_optimization.cpu_offload_use_pin_memory", kPinned},
    {"zero_optimization.load_from_fp32_weights", kCheckpoint},
    {"zero_optimization.elastic_checkpoint", kCheckpoint},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", kCheckpoint},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", kCheckpoint},
    {"zero_optimization.gather_16bit_weights_on_model_save", kCheckpoint},
    {"zero_optimization.pipeline_loading_checkpoint", kCheckpoint},
    {"zero_optimization.ignore_unused_parameters", "a check"},
    {"zero_optimization.enable_sanity_checks", "a check"},
    {"zero_optimization.override_module_apply", "a check"},
    {"zero_optimization.log_trace_cache_warnings", kLog},
    {"activation_checkpointing.synchronize_checkpoint_boundary", "a synchronisation for timing"},
    {"activation_checkpointing.profile", "profiling"},
    {"activation_checkpointing.number_checkpoints", "read for contiguous checkpoints alone"},
    {"orrery.*", "what orrery launch says of the file"},
    {"vocabulary_size", "a hint for its own checks"},
};

constexpr const char* kGranularity =
    "how many parameters are gathered or kept at once is not "
    "modelled beyond training.zero_prefetch";
constexpr const char* kQuantised = "quantised communication is not modelled";
constexpr const char* kNvme = "the cluster's storage says how fast it is";

constexpr Row kDeepSpeedUnsupported[] = {
    {"amp.enabled", "mixed precision by Apex is not modelled", "false"},
    {"amp.*", "mixed precision by Apex is not modelled"},
    {"communication_data_type", kNotModelled},
    {"seq_parallel_communication_data_type", kNotModelled},
    {"sparse_gradients", kNotModelled, "false"},
    {"sparse_attention.*", kNotModelled, nullptr, Changes::model},
    {"progressive_layer_drop.enabled", kNotModelled, "false", Changes::model},
    {"curriculum_learning.enabled", kNotModelled, "false"},
    {"data_efficiency.enabled", kNotModelled, "false"},
    {"compression_training.*", kNotModelled, nullptr, Changes::model},
    {"eigenvalue.enabled", kNotModelled, "false"},
    {"elasticity.enabled", kNotModelled, "false"},
    {"hybrid_engine.enabled", kNotModelled, "false"},
    {"graph_harvesting", "graphs of parts of a step are not modelled", "false"},
    {"compile.*", "compiled kernels are not modelled"},
    {"disable_allgather", kNotModelled, "false"},
    {"pipeline.*", "pipelines are in the program: give layout.pipeline_parallel"},
    {"tensor_parallel.*", "only autotp_size is read"},
    {"aio.*", kNvme},
    {"bf16.immediate_grad_update", kNotModelled, "true"},
    {"fp16.fp16_master_weights_and_grads", "states are kept in fp32", "false"},
    {"zero_optimization.offload_optimizer.ratio", "all states are kept there or none", "1"},
    {"zero_optimization.offload_optimizer.buffer_count", kNvme, "4"},
    {"zero_optimization.offload_optimizer.fast_init", "how a run starts", "false"},
    {"zero_optimization.offload_optimizer.pipeline_read", kNvme, "false"},
    {"zero_optimization.offload_optimizer.pipeline_write", kNvme, "false"},
    {"zero_optimization.offload_param.buffer_count", kNvme, "5"},
    {"zero_optimization.offload_param.buffer_size", kNvme, "1e8"},
    {"zero_optimization.offload_param.max_in_cpu", kNotModelled, "1e9"},
    {"zero_optimization.zero_hpz_partition_size",
     "a second copy of shards in each node (ZeRO++) "
     "is not modelled",
     "1"},
    {"zero_optimization.zero_quantized_weights", kQuantised, "false"},
    {"zero_optimization.zero_quantized_nontrainable_weights", kQuantised, "false"},
    {"zero_optimization.zero_quantized_gradients", kQuantised, "false"},
    {"zero_optimization.zeropp_loco_param.*", kQuantised},
    {"zero_optimization.mics_hierarchical_params_gather", kNotModelled, "false"},
    {"zero_optimization.contiguous_gradients", "gradients lie in buckets", "true"},
    {"zero_optimization.reduce_scatter", "gradients are reduced and scattered", "true"},
    {"zero_optimization.allgather_partitions", "parameters are gathered", "true"},
    {"zero_optimization.use_multi_rank_bucket_allreduce", kNotModelled, "true"},
    {"zero_optimization.round_robin_gradients", kNotModelled, "false"},
    {"zero_optimization.legacy_stage1", kNotModelled, "false"},
    {"zero_optimization.memory_efficient_linear", kNotModelled, "true"},
    {"zero_optimization.allgather_bucket_size", kGranularity, "5e8"},
    {"zero_optimization.sub_group_size", kGranularity, "1e9"},
    {"zero_optimization.stage3_max_live_parameters", kGranularity, "1e9"},
    {"zero_optimization.stage3_max_reuse_distance", kGranularity, "1e9"},
    {"zero_optimization.stage3_param_persistence_threshold", kGranularity, "1e5"},
    {"zero_optimization.param_persistence_threshold", kGranularity, "1e5"},
    {"zero_optimization.stage3_model_persistence_threshold", kGranularity},
    {"zero_optimization.stage3_module_granularity_threshold", kGranularity, "0"},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", kNotModelled, "false"},
    {"zero_optimization.stage3_allgather_sequential", kNotModelled, "false"},
    {"zero_optimization.zenflow.*", kNotModelled},
    {"activation_checkpointing.partition_activations", kNotModelled, "false"},
    {"activation_checkpointing.contiguous_memory_optimization", kNotModelled, "false"},
};

}  // namespace

std::span<const Row> deepspeed_ignored() {
    return kDeepSpeedIgnored;
}

std::span<const Row> deepspeed_unsupported() {
    return kDeepSpeedUnsupported;
}

}  // namespace orrery::plan::imports
