// Names are those of NVIDIA/NeMo 2: nemo/lightning/pytorch/strategies/megatron_strategy.py,
// lightning's Trainer, nemo/collections/llm/gpt/model/base.py, and of Megatron Core's configs.
#include "plan/scenario/import/nemo_recipe_rows.hpp"

#include "plan/scenario/import/reasons.hpp"

namespace orrery::plan::imports {
namespace {

constexpr const char* kRecipeKernels =
    "which kernels are fused is what training.framework stands for";
constexpr const char* kFp8Scales =
    "how the scales of FP8 follow their history changes no step's work";

constexpr Row kRecipeIgnored[] = {
    {"recipe", "its attributes are taken one by one"},
    {"name", kStart},
    {"dir", kCheckpoint},
    {"fn", kStart},
    {"log.*", kLog},
    {"resume.*", kCheckpoint},
    {"resume", kCheckpoint},
    {"tokenizer.*", kData},
    {"tokenizer", kData},
    {"data.*", kData},
    {"trainer.class", "its attributes are taken one by one"},
    {"trainer.strategy.class", "its attributes are taken one by one"},
    {"trainer.strategy.ddp.class", "its attributes are taken one by one"},
    {"trainer.plugins.class", "its attributes are taken one by one"},
    {"optim.class", "its attributes are taken one by one"},
    {"optim.config.class", "its attributes are taken one by one"},
    {"model.class", "its config's attributes are taken one by one"},
    {"model.tokenizer.*", kData},
    {"model.optim.*", "optim of the recipe says it"},
    {"trainer.accelerator", kStart},
    {"trainer.logger*", kLog},
    {"trainer.log_every_n_steps", kLog},
    {"trainer.enable_*", kLog},
    {"trainer.use_distributed_sampler", kData},
    {"trainer.max_epochs", kStart},
    {"trainer.max_time", kStart},
    {"trainer.val_check_interval", kEvaluation},
    {"trainer.check_val_every_n_epoch", kEvaluation},
    {"trainer.limit_*", kEvaluation},
    {"trainer.num_sanity_val_steps", kEvaluation},
    {"trainer.callbacks.TimingCallback.*", kLog},
    {"trainer.callbacks.DeltaTimingCallback.*", kLog},
    {"trainer.callbacks.SpeedMonitor.*", kLog},
    {"trainer.callbacks.FLOPsMeasurementCallback.*", kLog},
    {"trainer.callbacks.LearningRateMonitor.*", kLog},
    {"trainer.callbacks.ModelCheckpoint.*", kCheckpoint},
    {"trainer.callbacks.NsysCallback.*", kProfile},
    {"trainer.callbacks.NsysPlugin.*", kProfile},
    {"trainer.callbacks.MemoryProfileCallback.*", kProfile},
    {"trainer.callbacks.GarbageCollectionCallback.*",
     "Python's garbage collection is not simulated"},
    {"trainer.callbacks.MegatronCommOverlapCallback.class", "its attributes are taken one by one"},
    {"trainer.callbacks.MegatronCommOverlapCallback.tp_comm_overlap_cfg",
     "sizes of Transformer Engine's buffers are not modelled"},
    {"trainer.callbacks.MegatronCommOverlapCallback.wgrad_deferral_limit",
     "all of them are deferred"},
    {"trainer.callbacks.MegatronCommOverlapCallback.align_param_gather",
     "gathers begin where their parameters are"},
    {"trainer.strategy.ckpt_*", kCheckpoint},
    {"trainer.strategy.save_*", kCheckpoint},
    {"trainer.strategy.restore_config*", kCheckpoint},
    {"trainer.strategy.gradient_as_bucket_view", "gradients lie in buckets"},
    {"trainer.strategy.pipeline_dtype", "transfers are of the type of the activations"},
    {"trainer.strategy.progress_interval", kLog},
    {"trainer.strategy.ddp.check_for_nan_in_grad", "a check"},
    {"trainer.strategy.ddp.average_in_collective", "a division of the same size"},
    {"trainer.strategy.ddp.data_parallel_sharding_strategy", "read with FSDP"},
    {"trainer.plugins.params_dtype", "trainer.plugins says the precision"},
    {"trainer.plugins.pipeline_dtype", "transfers are of the type of the activations"},
    {"trainer.plugins.autocast_enabled", "inputs are cast once"},
    {"trainer.plugins.fp8_margin", kFp8Scales},
    {"trainer.plugins.fp8_amax_*", kFp8Scales},
    {"optim.config.bf16", "trainer.plugins says the precision"},
    {"optim.config.fp16", "trainer.plugins says the precision"},
    {"optim.config.params_dtype", "trainer.plugins says the precision"},
    {"optim.config.precision", "trainer.plugins says the precision"},
    {"optim.config.min_lr", kRate},
    {"optim.config.decoupled_*", kRate},
    {"optim.lr_scheduler.*", kRate},
    {"model.config.cross_entropy_loss_fusion", kRecipeKernels},
    {"model.config.apply_rope_fusion", kRecipeKernels},
    {"model.config.bias_activation_fusion", kRecipeKernels},
    {"model.config.bias_dropout_fusion", kRecipeKernels},
    {"model.config.masked_softmax_fusion", kRecipeKernels},
    {"model.config.persist_layer_norm", kRecipeKernels},
    {"model.config.gradient_accumulation_fusion", kRecipeKernels},
    {"model.config.transformer_layer_spec", "layers are those of training.framework"},
    {"model.config.recompute_method", "read with recompute_granularity"},
    {"model.config.recompute_num_layers", "read with recompute_granularity"},
};

constexpr const char* kUnevenStages = "give layout.layers_per_stage";

constexpr Row kRecipeUnsupported[] = {
    {"model.config.num_moe_experts", "experts are not read from recipes", nullptr, Changes::model},
    {"model.config.moe_*", "experts are not read from recipes", nullptr, Changes::model},
    {"model.config.activation_func", "which function it is stands in another file", nullptr,
     Changes::model},
    {"model.config.window_size", "give a model with a sliding window by --model", nullptr,
     Changes::model},
    {"model.config.qk_layernorm", "give a model with norms of queries and keys by --model", "false",
     Changes::model},
    {"model.config.mtp_num_layers", "give a model that predicts further tokens by --model", nullptr,
     Changes::model},
    {"model.config.tp_comm_overlap", "give training.tensor_overlap_parts", "false"},
    {"model.config.enable_cuda_graph", "give training.cuda_graphs", "false"},
    {"model.config.cpu_offloading*", kNotModelled, "false"},
    {"model.config.recompute_modules", "give layout.recompute_modules"},
    {"model.config.fp32_residual_connection", kNotModelled, "false"},
    {"trainer.strategy.expert_model_parallel_size", "experts are not read from recipes", "1",
     Changes::model},
    {"trainer.strategy.expert_tensor_parallel_size", "experts are not read from recipes", "1",
     Changes::model},
    {"trainer.strategy.fsdp", "give layout.zero_stage 3"},
    {"trainer.strategy.num_layers_in_first_pipeline_stage", kUnevenStages},
    {"trainer.strategy.num_layers_in_last_pipeline_stage", kUnevenStages},
    {"trainer.strategy.pipeline_model_parallel_layout", kUnevenStages},
    {"trainer.strategy.ddp.bucket_size", "give training.gradient_bucket_mb"},
    {"trainer.strategy.ddp.num_distributed_optimizer_instances", "give layout.zero_group_size",
     "1"},
    {"trainer.strategy.ddp", "another wrapper of the model than Megatron's", "\"megatron\""},
    {"trainer.accumulate_grad_batches", "the micro-batches follow from the batch", "1"},
    {"trainer.gradient_clip_val", "give training.optimizer.clip_norm"},
    {"trainer.plugins.first_last_layers_bf16", "all layers are of one precision", "false"},
    {"trainer.plugins.num_layers_at_*", "all layers are of one precision", "0"},
    {"trainer.plugins.fp8_param_gather", "give training.fp8_param_gather", "false"},
    {"optim.config.use_precision_aware_optimizer",
     "give the types of the states in training.optimizer", "false"},
    {"optim.config.main_params_dtype", "give training.optimizer.main_params_dtype"},
    {"optim.config.main_grads_dtype", "give training.gradient_dtype"},
    {"optim.config.exp_avg_dtype", "give training.optimizer.exp_avg_dtype"},
    {"optim.config.exp_avg_sq_dtype", "give training.optimizer.exp_avg_sq_dtype"},
    {"optim.config.overlap_param_gather_with_optimizer_step", kNotModelled, "false"},
    {"trainer.callbacks.MegatronCommOverlapCallback.overlap_param_gather_with_optimizer_step",
     kNotModelled, "false"},
    {"trainer.callbacks.MegatronCommOverlapCallback.overlap_p2p_comm",
     "how transfers wait is what training.framework stands for", "true"},
    {"trainer.callbacks.MegatronCommOverlapCallback.batch_p2p_comm",
     "how transfers wait is what training.framework stands for", "false"},
    {"performance_mode", "what it turns on stands in NeMo's source", "false"},
    {"peft.*", "of adapters this is not modelled"},
};

}  // namespace

std::span<const Row> nemo_recipe_ignored() {
    return kRecipeIgnored;
}

std::span<const Row> nemo_recipe_unsupported() {
    return kRecipeUnsupported;
}

}  // namespace orrery::plan::imports
