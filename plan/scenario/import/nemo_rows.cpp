// Names and defaults are those of NVIDIA/NeMo 1.x,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml.
#include "plan/scenario/import/nemo_rows.hpp"

#include "plan/scenario/import/reasons.hpp"

namespace orrery::plan::imports {
namespace {

constexpr const char* kOtherScheme = "of another scheme than lora";
constexpr const char* kAdapterStart = "A starts from a normal distribution, B from zeros";

constexpr Row kNemoIgnored[] = {
    {"model.peft.p_tuning.*", kOtherScheme},
    {"model.peft.adapter_tuning.*", kOtherScheme},
    {"model.peft.ia3_tuning.*", kOtherScheme},
    {"model.peft.selective_tuning.*", kOtherScheme},
    {"model.peft.restore_from_path", "give run.init_from"},
    {"model.peft.restore_from_ckpt.*", "give run.init_from"},
    {"model.peft.lora_tuning.column_init_method", kAdapterStart},
    {"model.peft.lora_tuning.row_init_method", kAdapterStart},
    {"name", kStart},
    {"run.*", kStart},
    {"defaults", kStart},
    {"hydra.*", kStart},
    {"restore_from_path", kCheckpoint},
    {"restore_from_ckpt", kCheckpoint},
    {"exp_manager.*", kCheckpoint},
    {"trainer.accelerator", kStart},
    {"trainer.logger", kLog},
    {"trainer.log_every_n_steps", kLog},
    {"trainer.enable_checkpointing", kCheckpoint},
    {"trainer.enable_progress_bar", kLog},
    {"trainer.replace_sampler_ddp", kData},
    {"trainer.use_distributed_sampler", kData},
    {"trainer.max_epochs", kStart},
    {"trainer.max_time", kStart},
    {"trainer.benchmark", "which convolutions are timed"},
    {"trainer.val_check_interval", kEvaluation},
    {"trainer.check_val_every_n_epoch", kEvaluation},
    {"trainer.limit_val_batches", kEvaluation},
    {"trainer.limit_test_batches", kEvaluation},
    {"trainer.num_sanity_val_steps", kEvaluation},
    {"model.resume_from_checkpoint", kCheckpoint},
    {"model.restore_from_path", kCheckpoint},
    {"model.dist_ckpt_*", kCheckpoint},
    {"model.tokenizer.*", kData},
    {"model.data.*", kData},
    {"model.pre_process", "the embedding is there"},
    {"model.post_process", "the head is there"},
    {"model.nsys_profile.*", kProfile},
    {"model.memory_profile.*", kProfile},
    {"model.use_cpu_initialization", kStart},
    {"model.apex_transformer_log_level", kLog},
    {"model.mcore_gpt", "layers of Megatron Core are those of training.framework"},
    {"model.transformer_engine", "layers of Transformer Engine are those of training.framework"},
    {"model.apply_query_key_layer_scaling", "a factor in the softmax of the same shape"},
    {"model.normalize_attention_scores", "a factor in the softmax of the same shape"},
    {"model.grad_div_ar_fusion", "a division of the same size"},
    {"model.gradient_as_bucket_view", "gradients lie in buckets"},
    {"model.grad_allreduce_chunk_size_mb", "read without a distributed optimizer"},
    {"model.nccl_communicator_config_path", "counts of NCCL's thread groups are not modelled"},
    {"model.gc_interval", "Python's garbage collection is not simulated"},
    {"model.sync_batch_comm", "how transfers wait is what training.framework stands for"},
    {"model.use_init_method", "first weights are as large"},
    {"model.fp8_margin", "how the scales of FP8 follow their history changes no step's work"},
    {"model.fp8_interval", "how the scales of FP8 follow their history changes no step's work"},
    {"model.fp8_amax_*", "how the scales of FP8 follow their history changes no step's work"},
    {"model.optim.sched.*", kRate},
};

constexpr const char* kFused = "which kernels are fused is what training.framework stands for";
constexpr const char* kAdapters = "a part of the weights alone is trained";

constexpr Row kNemoUnsupported[] = {
    {"model.moe_*", "of mixtures of experts this is not modelled", nullptr, Changes::model},
    {"model.expert_model_parallel_size", "the model has no experts", "1", Changes::model},
    {"model.expert_tensor_parallel_size", "the model has no experts", "1", Changes::model},
    {"model.window_size", "give a model with a sliding window by --model", nullptr, Changes::model},
    {"model.transformer_block_type", "another order of the layer's parts", "\"pre_ln\"",
     Changes::model},
    {"model.name", "another layer than the model's keys say", nullptr, Changes::model},
    {"model.spec", "another layer than the model's keys say", nullptr, Changes::model},
    {"model.retro.*", "retrieval and its cross attention are not modelled", nullptr,
     Changes::model},
    {"model.encoder.*", "encoder and decoder are not modelled", nullptr, Changes::model},
    {"model.decoder.*", "encoder and decoder are not modelled", nullptr, Changes::model},
    {"model.openai_gelu", "no family of models has it", "false", Changes::model},
    {"model.onnx_safe", "no family of models has it", "false", Changes::model},
    {"model.headscale", "no family of models has it", "false", Changes::model},
    {"model.peft.*", kAdapters, nullptr, Changes::model},
    {"model.qk_layernorm", "norms of queries and keys are not modelled", "false", Changes::model},
    {"model.seq_len_interpolation_factor", kNotModelled, "1"},
    {"model.apply_rope_fusion", kFused, "true"},
    {"model.bias_activation_fusion", kFused, "true"},
    {"model.bias_dropout_add_fusion", kFused, "true"},
    {"model.masked_softmax_fusion", kFused, "true"},
    {"model.persist_layer_norm", kFused, "true"},
    {"model.gradient_accumulation_fusion", kFused, "true"},
    {"model.fp32_residual_connection", kNotModelled, "false"},
    {"model.fp16_lm_cross_entropy", "give training.logits_dtype", "false"},
    {"model.megatron_amp_O2", "without it parameters are kept in 32 bits and cast", "true"},
    {"model.pipeline_model_parallel_split_rank", "encoder and decoder are not modelled", "0",
     Changes::model},
    {"model.optim.bucket_cap_mb", "give training.gradient_bucket_mb"},
    {"model.optim.grad_sync_dtype", "give training.gradient_dtype"},
    {"model.optim.contiguous_grad_buffer", kNotModelled, "true"},
    {"model.optim.contiguous_param_buffer", kNotModelled, "true"},
    {"model.num_micro_batches_with_partial_activation_checkpoints", kNotModelled, "0"},
    {"model.activations_checkpoint_layers_per_pipeline", kNotModelled, "0"},
    {"model.ub_tp_comm_overlap_cfg", "sizes of Transformer Engine's buffers are not modelled"},
    {"model.cpu_offloading", kNotModelled, "false"},
    {"trainer.accumulate_grad_batches", "the micro-batches follow from the batch", "1"},
    {"trainer.limit_train_batches", kNotModelled, "1"},
};

}  // namespace

std::span<const Row> nemo_ignored() {
    return kNemoIgnored;
}

std::span<const Row> nemo_unsupported() {
    return kNemoUnsupported;
}

}  // namespace orrery::plan::imports
