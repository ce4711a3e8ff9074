// Options of Megatron-LM, one by one, and what they say together.
#include <gtest/gtest.h>

#include "plan/scenario/import/megatron_rows.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

constexpr const char* kBase =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 512 --vocab-size "
    "50257 "
    "--lr 1e-4 --train-iters 1000 ";

Imported imported(const std::string& text, std::int64_t gpus = 64) {
    return import_text(text, "run.sh", Format::megatron, wishes(gpus));
}

std::string errors(const Imported& imported) {
    return format_text(imported.errors);
}

// 64 ranks unless the options say otherwise.
TEST(Megatron, EachOptionBecomesItsKey) {
    const Expectation all[] = {
        {"", "model.num_layers", "32"},
        {"", "model.vocab_size", "50257"},
        {"--tokenizer-type NullTokenizer", "model.vocab_size", "50258"},
        {"", "model.ffn_hidden_size", "16384"},
        {"--ffn-hidden-size 11008", "model.ffn_hidden_size", "11008"},
        {"--swiglu", "model.ffn_hidden_size", "10880"},  // 64 · ⌊4·4096·2/3 / 64⌋
        {"--swiglu", "model.swiglu", "true"},
        {"--kv-channels 64", "model.kv_channels", "64"},
        {"", "model.num_query_groups", "32"},
        {"--group-query-attention --num-query-groups 8", "model.num_query_groups", "8"},
        {"--group-query-attention", "model.num_query_groups", "1"},
        {"", "model.position_embedding_type", "\"learned_absolute\""},
        {"--position-embedding-type rope", "model.position_embedding_type", "\"rope\""},
        {"--use-rotary-position-embeddings", "model.position_embedding_type", "\"rope\""},
        {"--position-embedding-type rope --rotary-base 500000", "model.rotary_base", "500000"},
        {"--position-embedding-type rope --rotary-percent 0.5", "model.rotary_percent", "0.5"},
        {"--position-embedding-type rope --use-rope-scaling", "model.rope_scaling.factor", "8"},
        {"--normalization RMSNorm", "model.normalization", "\"RMSNorm\""},
        {"--norm-epsilon 1e-6", "model.norm_epsilon", "1e-06"},
        {"--layernorm-epsilon 1e-6", "model.norm_epsilon", "1e-06"},
        {"--disable-bias-linear", "model.add_bias_linear", "false"},
        {"--disable-bias-linear", "model.add_qkv_bias", "false"},
        {"--disable-bias-linear --add-qkv-bias", "model.add_qkv_bias", "true"},
        {"--untie-embeddings-and-output-weights", "model.untie_embeddings_and_output_weights",
         "true"},
        {"--attention-dropout 0.0", "model.attention_dropout", "0"},
        {"", "model.hidden_dropout", "0.1"},
        {"--init-method-std 0.006", "model.init_method_std", "0.006"},
        {"--normalization RMSNorm --qk-layernorm", "model.qk_layernorm", "true"},
        {"--num-experts 8", "model.num_experts", "8"},
        {"--num-experts 8", "model.moe_router_topk", "2"},
        {"--num-experts 8 --moe-router-topk 1", "model.moe_router_topk", "1"},
        {"--num-experts 8 --moe-layer-freq 2", "model.moe_layer_freq", "2"},
        {"--num-experts 8 --moe-ffn-hidden-size 512", "model.moe_ffn_hidden_size", "512"},
        {"--num-experts 8 --moe-router-pre-softmax", "model.moe_router_pre_softmax", "true"},
        {"--num-experts 8 --moe-router-force-load-balancing", "training.routing.distribution",
         "\"random\""},
        {"--num-experts 8 --expert-model-parallel-size 8", "layout.expert_parallel", "8"},
        {"--num-experts 8 --tensor-model-parallel-size 4", "layout.expert_tensor_parallel", "4"},
        {"--num-experts 8 --tensor-model-parallel-size 4 --expert-tensor-parallel-size 1",
         "layout.expert_tensor_parallel", "1"},
        {"--tensor-model-parallel-size 8", "layout.tensor_parallel", "8"},
        {"--tensor-model-parallel-size=8", "layout.data_parallel", "8"},
        {"--pipeline-model-parallel-size 4", "layout.data_parallel", "16"},
        {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2",
         "layout.virtual_pipeline", "4"},
        {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2",
         "layout.schedule", "\"interleaved\""},
        {"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 8",
         "layout.virtual_pipeline", "8"},
        {"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 1",
         "layout.schedule", "\"1f1b\""},
        {"--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5 "
         "--decoder-last-pipeline-num-layers 7",
         "layout.layers_per_stage", "[5,10,10,7]"},
        {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
         "--decoder-first-pipeline-num-layers 12",
         "layout.layers_per_stage", "[6,10,6,10]"},
        {"--pipeline-model-parallel-size 4 --num-layers 30 "
         "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
         "layout.layers_per_stage", "[7,8,8,7]"},
        {"--mtp-num-layers 1", "model.mtp_num_layers", "1"},
        {"--mtp-num-layers 1 --mtp-loss-scaling-factor 0.3", "training.mtp_loss_scaling_factor",
         "0.3"},
        {"--pipeline-model-parallel-size 4 --mtp-num-layers 1 --pipeline-model-parallel-layout "
         "'Et|(ttt|)*10tmL'",
         "layout.virtual_pipeline", "3"},
        {"--pipeline-model-parallel-size 4 --mtp-num-layers 1 --pipeline-model-parallel-layout "
         "'Et|(ttt|)*10tmL'",
         "layout.layers_per_stage", "[1,3,3,3,3,3,3,3,3,3,3,1]"},
        {"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*9|t*9|t*9|t*5L'",
         "layout.layers_per_stage", "[9,9,9,5]"},
        {"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*8|(t*11|)*2t*2L'",
         "layout.layers_per_stage", "[8,11,11,2]"},
        {"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*16|t*16||L'",
         "layout.schedule", "\"1f1b\""},
        {"--context-parallel-size 2", "layout.context_algorithm", "\"ring\""},
        {"--context-parallel-size 2 --cp-comm-type a2a", "layout.context_algorithm",
         "\"all_to_all\""},
        {"--context-parallel-size 2 --cp-comm-type all_gather all_gather",
         "layout.context_algorithm", "\"all_gather\""},
        {"--sequence-parallel --tensor-model-parallel-size 2", "layout.sequence_parallel", "true"},
        {"", "layout.sequence_parallel", "false"},
        {"--use-distributed-optimizer", "layout.zero_stage", "1"},
        {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
         "layout.zero_stage", "3"},
        {"--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "layout.reshard_after_forward",
         "false"},
        {"--use-distributed-optimizer --num-distributed-optimizer-instances 4",
         "layout.zero_group_size", "16"},
        {"--optimizer-cpu-offload", "layout.offload.optimizer", "\"host\""},
        {"", "layout.recompute", "\"none\""},
        {"--recompute-activations", "layout.recompute", "\"selective\""},
        {"--recompute-granularity selective", "layout.recompute", "\"selective\""},
        {"--recompute-granularity selective --recompute-modules mlp", "layout.recompute_modules",
         "[\"mlp\"]"},
        {"--recompute-granularity selective --recompute-modules core_attn layernorm mlp",
         "layout.recompute_modules", "[\"core_attn\",\"layernorm\",\"mlp\"]"},
        {"--num-experts 8 --recompute-granularity selective --recompute-modules moe_act layernorm",
         "layout.recompute_modules", "[\"moe_act\",\"layernorm\"]"},
        {"--num-experts 8 --moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias",
         "true"},
        {"--num-experts 8 --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.002",
         "training.routing.bias_rate", "0.002"},
        {"--multi-latent-attention --kv-lora-rank 512", "model.kv_lora_rank", "512"},
        {"--multi-latent-attention --v-head-dim 96", "model.v_head_dim", "96"},
        {"--multi-latent-attention --rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0",
         "model.rope_scaling.mscale_all_dim", "1"},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
         "layout.recompute", "\"full\""},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
         "layout.recompute_every", "4"},
        {"--pipeline-model-parallel-size 4 --recompute-granularity full --recompute-method block "
         "--recompute-num-layers 8",
         "layout.recompute", "\"full\""},
        {"--checkpoint-activations", "layout.recompute", "\"full\""},
        {"--use-precision-aware-optimizer --exp-avg-dtype bf16", "training.optimizer.exp_avg_dtype",
         "\"bf16\""},
        {"--use-precision-aware-optimizer --main-params-dtype fp16",
         "training.optimizer.main_params_dtype", "\"fp16\""},
        {"--enable-cuda-graph", "training.cuda_graphs", "\"per_layer\""},
        {"--external-cuda-graph --cuda-graph-scope full", "training.cuda_graphs", "\"per_layer\""},
        {"--cuda-graph-impl local --cuda-graph-scope full_iteration", "training.cuda_graphs",
         "\"full_iteration\""},
        {"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", "training.loss_logits",
         "\"fused\""},
        {"--cross-entropy-loss-fusion", "training.loss_logits", "\"in_place\""},
        {"--cross-entropy-loss-fusion", "training.loss_kernel", "\"fused\""},
        {"", "training.loss_kernel", "\"composed\""},
        {"--checkpoint-activations --checkpoint-num-layers 2", "layout.recompute", "\"every_k\""},
        {"--activations-checkpoint-method uniform", "layout.recompute", "\"full\""},
        {"", "training.sequence_length", "2048"},
        {"", "layout.micro_batch_size", "2"},
        {"", "layout.global_batch_size", "512"},
        {"", "training.tokens", "1048576000"},  // 1000 · 512 · 2048
        {"--train-samples 1000000", "training.tokens", "2048000000"},
        {"", "run.steps", "1000"},
        {"--rampup-batch-size 32 32 1000", "training.batch_ramp.increment", "32"},
        {"", "training.precision", "\"fp32\""},
        {"--bf16", "training.precision", "\"bf16\""},
        {"--bf16", "training.gradient_dtype", "\"fp32\""},
        {"--bf16 --fp8-format hybrid", "training.precision", "\"fp8\""},
        {"--bf16 --fp8-format hybrid", "training.fp8_recipe", "\"delayed\""},
        {"--bf16 --fp8-format e4m3 --fp8-recipe blockwise", "training.fp8_recipe", "\"blockwise\""},
        {"--bf16 --grad-reduce-in-bf16", "training.gradient_dtype", "\"same\""},
        {"--fp16", "training.gradient_dtype", "\"same\""},
        {"--fp16 --accumulate-allreduce-grads-in-fp32", "training.gradient_dtype", "\"fp32\""},
        {"--fp16 --loss-scale 4096", "training.loss_scale", "4096"},
        {"--fp16", "training.loss_scale.initial", "4294967296"},
        {"--fp16 --hysteresis 4", "training.loss_scale.hysteresis", "4"},
        {"--fp16 --loss-scale-window 500", "training.loss_scale.growth_interval", "500"},
        {"", "training.optimizer.learning_rate", "0.0001"},
        {"", "training.optimizer.beta2", "0.999"},
        {"--adam-beta1 0.8 --adam-beta2 0.95", "training.optimizer.beta2", "0.95"},
        {"--adam-eps 1e-6", "training.optimizer.epsilon", "1e-06"},
        {"", "training.optimizer.weight_decay", "0.01"},
        {"--weight-decay 0.1", "training.optimizer.weight_decay", "0.1"},
        {"--clip-grad 0.5", "training.optimizer.clip_norm", "0.5"},
        {"--min-lr 1e-5", "training.schedule.min_learning_rate", "1e-05"},
        {"--lr-decay-style cosine", "training.schedule.decay", "\"cosine\""},
        {"--lr-warmup-iters 100", "training.schedule.warmup_steps", "100"},
        {"--lr-warmup-fraction .01", "training.schedule.warmup_steps", "10"},
        {"--lr-warmup-fraction .01 --lr-decay-iters 800", "training.schedule.warmup_steps", "8"},
        {"--lr-warmup-samples 5120", "training.schedule.warmup_steps", "10"},
        {"--seed 42", "training.seed", "42"},
        {"", "training.framework", "\"megatron\""},
        {"--checkpoint-activations", "training.framework", "\"megatron-2021\""},
        {"", "training.attention_kernel", "\"flash\""},
        {"--transformer-impl local", "training.attention_kernel", "\"unfused\""},
        {"--transformer-impl local --use-flash-attn", "training.attention_kernel", "\"flash\""},
        {"--attention-backend unfused", "training.attention_kernel", "\"unfused\""},
        {"--DDP-impl local", "training.attention_kernel", "\"unfused\""},
        {"", "training.overlap_gradient_reduce", "false"},
        {"--overlap-grad-reduce", "training.overlap_gradient_reduce", "true"},
        {"--overlap-param-gather", "training.overlap_parameter_gather", "true"},
        {"--defer-embedding-wgrad-compute", "training.defer_embedding_gradient", "true"},
        {"--no-overlap-p2p-communication", "training.overlap_pipeline_transfers", "\"never\""},
        {"--no-scatter-gather-tensors-in-pipeline", "training.scatter_gather_transfers", "false"},
        {"--tensor-model-parallel-size 4 --tp-comm-overlap", "training.tensor_overlap_parts", "4"},
        {"--bf16 --ddp-bucket-size 40000000", "training.gradient_bucket_mb", "160"},
        {"--make-vocab-size-divisible-by 64", "training.vocabulary_multiple", "64"},
    };
    for (const Expectation& row : all)
        expect(imported(std::string(kBase) + row.text), row, "");
}

TEST(Megatron, OtherOptionsAreNamedWithTheReason) {
    const Expectation all[] = {
        {"--data-path", "ignored", "changes no step"},
        {"--log-interval", "ignored", "logging"},
        {"--log-anything-new", "ignored", "logging"},
        {"--save", "ignored", "checkpoints"},
        {"--eval-iters", "ignored", "evaluation"},
        {"--cp-comm-type", "ignored", "size 1"},
        {"--loss-scale", "ignored", "fp16"},
        {"--rotary-base", "ignored", "learned"},
        {"--num-query-groups", "ignored", "--group-query-attention"},
        {"--tp-comm-overlap", "ignored", "tensor parallel 1"},
        {"--moe-router-topk", "ignored", "reads it with --num-experts"},
        {"--mtp-loss-scaling-factor", "ignored", "reads it with --mtp-num-layers"},
        {"--num-experts 8 --moe-router-fusion", "ignored", "as here"},
        {"--num-experts 8 --moe-router-load-balancing-type sinkhorn --moe-aux-loss-coeff",
         "unsupported", "within each sequence"},
        {"--num-experts 8 --moe-token-drop-policy", "ignored", "no capacity"},
        {"--num-experts 8 --moe-new-thing", "unsupported", "experts"},
        {"--kv-lora-rank", "ignored", "reads it with --multi-latent-attention"},
        {"--fp8-param-gather", "unsupported", "16 bits"},
        {"--fp8-margin", "ignored", "scales of FP8"},
        {"--no-masked-softmax-fusion", "ignored", "no kernel for the softmax"},
        {"--transformer-impl local --no-masked-softmax-fusion", "unsupported", "not fused"},
        {"--decoupled-lr", "ignored", "learning rate"},
        {"--use-wandb-thing", "ignored", "by its name: logging"},
        {"--new-tensorboard-thing", "ignored", "by its name: logging"},
        {"--eval-new-thing", "ignored", "by its name: evaluation"},
        {"--data-other-path", "ignored", "by its name: which samples"},
        {"--sampler-seed", "ignored", "by its name: what is drawn"},
        {"--data-parallel-new-thing", "unsupported", "not known"},
        {"--load-balancing", "unsupported", "not known"},
        {"--qk-layernorm", "unsupported", "norms"},
        {"--mtp-use-repeated-layer", "unsupported", "multi-token prediction"},
        {"--banana", "unsupported", "not known; nearest: "},
        {"--num-layer", "unsupported", "not known; nearest: --num-layers"},
    };
    for (const Expectation& row : all) {
        const bool flag = std::string(row.text).find("fusion") != std::string::npos ||
                          std::string(row.text) == "--tp-comm-overlap";
        const std::string text = row.text;
        expect(imported(std::string(kBase) + text + (flag ? "" : " 2")), row,
               text.substr(text.rfind("--")));
    }
}

TEST(Megatron, LayersWithExpertsByAnExpressionAreNamed) {
    const Imported result = imported(
        std::string(kBase) + "--num-experts 8 --moe-layer-freq '[int(i>2) for i in range(32)]'");
    ASSERT_NE(left(result.unsupported, "--moe-layer-freq"), nullptr);
    EXPECT_EQ(left(result.unsupported, "--moe-layer-freq")->changes, Changes::model);
}

TEST(Megatron, LayersWithExpertsByListsAreTaken) {
    const auto frequency = [](const std::string& text) {
        return at(imported(std::string(kBase) + "--num-experts 8 --moe-layer-freq '" + text + "'"),
                  "model.moe_layer_freq");
    };
    EXPECT_EQ(frequency("([0]*2+[1]*3)"), "[0,0,1,1,1]");
    EXPECT_EQ(frequency("[0,1]*2"), "[0,1,0,1]");
    EXPECT_EQ(frequency("[1, 0, 1]"), "[1,0,1]");
    EXPECT_EQ(frequency("[2]*3"), "-");
    EXPECT_EQ(frequency("[1]*1000000000"), "-");
    EXPECT_EQ(frequency("[1]+"), "[1]");
}

TEST(Megatron, WhatBalancesAndHidesExpertsIsTaken) {
    const Imported result = imported(
        std::string(kBase) +
        "--num-experts 8 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1e-4 "
        "--moe-z-loss-coeff 1e-3 --overlap-moe-expert-parallel-comm --moe-router-padding-for-fp8");
    EXPECT_EQ(at(result, "training.routing.balance_loss"), "0.0001");
    EXPECT_EQ(at(result, "training.routing.z_loss"), "0.001");
    EXPECT_EQ(at(result, "layout.overlap_expert_communication"), "true");
    EXPECT_EQ(left(result.unsupported, "--moe-router-padding-for-fp8"), nullptr);
}

// Off where it is not said (moe_permute_fusion of megatron/core/transformer/transformer_config.py).
TEST(Megatron, RowsArePermutedInAKernelWhereItSaysSo) {
    const std::string base = std::string(kBase) + "--num-experts 8 ";
    EXPECT_EQ(at(imported(base + "--moe-permute-fusion"), "training.permute_kernel"), "\"fused\"");
    EXPECT_EQ(at(imported(base), "training.permute_kernel"), "\"indexed\"");
    EXPECT_EQ(at(imported(kBase), "training.permute_kernel"), "-");
}

// Nor are products of experts one (moe_grouped_gemm of the same file).
TEST(Megatron, ExpertsGoOneByOneUnlessItSaysSo) {
    const std::string base = std::string(kBase) + "--num-experts 8 ";
    EXPECT_EQ(at(imported(base + "--moe-grouped-gemm"), "training.expert_products"), "\"grouped\"");
    EXPECT_EQ(at(imported(base), "training.expert_products"), "\"one_by_one\"");
    EXPECT_EQ(at(imported(kBase), "training.expert_products"), "-");
}

// Within what, where none is said: megatron/training/arguments.py.
TEST(Megatron, WithinWhatExpertsAreBalancedIsTaken) {
    const auto balanced = [](const std::string& options) {
        return at(imported(std::string(kBase) + "--num-experts 8 " + options),
                  "training.routing.balance_of");
    };
    EXPECT_EQ(balanced("--moe-aux-loss-coeff 1e-2"), "\"micro_batch\"");
    EXPECT_EQ(balanced("--moe-aux-loss-coeff 1e-2 --moe-router-load-balancing-type aux_loss"),
              "\"micro_batch\"");
    EXPECT_EQ(balanced("--moe-aux-loss-coeff 1e-2 --moe-router-load-balancing-type seq_aux_loss"),
              "-");
    EXPECT_EQ(balanced("--moe-aux-loss-coeff 0"), "-");
}

TEST(Megatron, TheCapacityOfExpertsIsTaken) {
    const std::string base = std::string(kBase) + "--num-experts 8 ";
    const Imported padded =
        imported(base +
                 "--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity "
                 "--moe-token-drop-policy position");
    EXPECT_EQ(at(padded, "training.routing.capacity_factor"), "1.25");
    EXPECT_EQ(at(padded, "training.routing.capacity_of"), "\"rank\"");
    EXPECT_EQ(at(padded, "training.routing.drop_policy"), "\"position\"");
    EXPECT_EQ(at(padded, "training.routing.pad_to_capacity"), "true");
    EXPECT_EQ(at(imported(base + "--moe-pad-expert-input-to-capacity"),
                 "training.routing.pad_to_capacity"),
              "-");
}

// Where none is said, Megatron-LM's own: megatron/training/arguments.py.
TEST(Megatron, HowRowsGoToExpertsIsTaken) {
    const auto dispatcher = [](const std::string& options) {
        return at(imported(std::string(kBase) + "--num-experts 8 " + options),
                  "layout.expert_dispatcher");
    };
    const std::string spread = "--expert-model-parallel-size 4 --sequence-parallel ";
    EXPECT_EQ(dispatcher(spread), "\"allgather\"");
    EXPECT_EQ(dispatcher(spread + "--moe-token-dispatcher-type allgather"), "\"allgather\"");
    EXPECT_EQ(dispatcher(spread + "--moe-token-dispatcher-type flex --moe-enable-deepep"),
              "\"deduplicated\"");
    EXPECT_EQ(dispatcher(spread + "--moe-token-dispatcher-type alltoall"), "-");
    EXPECT_EQ(dispatcher("--expert-tensor-parallel-size 1"), "-");
    EXPECT_EQ(dispatcher("--expert-tensor-parallel-size 1 --moe-token-dispatcher-type flex"), "-");
}

// The ends of a pipeline are where they are here.
TEST(Megatron, StagesByLettersAreReadOrNamed) {
    const std::string base = std::string(kBase) + "--pipeline-model-parallel-size 2 ";
    for (const char* text : {"t*16E|t*16L", "Et*16L|t*16", "Et*16|mt*16|L", "Et*16|(t*16L",
                             "Et|((t)*15|t)*16L", "E", "Et*x|t*16L", "Eq*16|t*16L"}) {
        const Imported result = imported(base + "--pipeline-model-parallel-layout '" + text + "'");
        EXPECT_EQ(errors(result), "") << text;
        ASSERT_NE(left(result.unsupported, "--pipeline-model-parallel-layout"), nullptr) << text;
    }
    for (const char* text : {"Et*16|t*15L", "Et*16|t*8|t*8L", "Et*16|t*16mL"})
        EXPECT_NE(errors(imported(base + "--pipeline-model-parallel-layout '" + text + "'"))
                      .find("error[I004]"),
                  std::string::npos)
            << text;
}

// Options that a condition may add are looked at one by one.
TEST(Megatron, WhatAConditionMayAddIsNamed) {
    const Imported result = imported(
        "A=(--bf16)\nif [ $X = 1 ]; then\n A+=(--wandb-project x --num-experts 8\n  "
        "--swiglu --recompute-activations)\nfi\npython pretrain_gpt.py ${A[@]} " +
        std::string(kBase));
    EXPECT_EQ(errors(result), "");
    ASSERT_NE(left(result.ignored, "--wandb-project"), nullptr);
    EXPECT_EQ(left(result.ignored, "--wandb-project")->why,
              "added under a condition in line 3; logging");
    for (const char* option : {"--num-experts", "--swiglu"}) {
        ASSERT_NE(left(result.unsupported, option), nullptr) << option;
        EXPECT_EQ(left(result.unsupported, option)->changes, Changes::model) << option;
    }
    ASSERT_NE(left(result.unsupported, "--recompute-activations"), nullptr);
    EXPECT_EQ(left(result.unsupported, "--recompute-activations")->changes, Changes::cost);
    EXPECT_EQ(left(result.unsupported, "--recompute-activations")->why,
              "added under a condition in line 4: whether it holds is not settled in this file");
    EXPECT_EQ(at(result, "model.swiglu"), "false");
}

// At the values at which they change nothing, the others are no obstacle.
TEST(Megatron, NeutralValuesChangeNothing) {
    for (const char* text : {"--expert-model-parallel-size 1", "--main-grads-dtype fp32",
                             "--cpu-offloading-num-layers 0", "--DDP-impl local"}) {
        const Imported result = imported(std::string(kBase) + text);
        EXPECT_TRUE(result.unsupported.empty()) << text;
    }
    EXPECT_EQ(imported(std::string(kBase) + "--expert-model-parallel-size 2").unsupported.size(),
              1u);
}

// Whatever has a row there is named in the report, and nothing else is needed for it.
TEST(Megatron, EveryRowIsNamed) {
    for (const auto& rows : {megatron_ignored(), megatron_unsupported()})
        for (const Row& row : rows) {
            std::string option = row.key;
            if (option.back() == '*') option.back() = 'x';
            const Imported result = imported(std::string(kBase) + option + " 3");
            EXPECT_EQ(errors(result), "") << option;
            EXPECT_TRUE(left(result.ignored, option) != nullptr ||
                        left(result.unsupported, option) != nullptr)
                << option;
        }
}

TEST(Megatron, TheLastOfTwoCounts) {
    const Imported result = imported(std::string(kBase) + "--seed 1 --seed 2");
    EXPECT_EQ(at(result, "training.seed"), "2");
    ASSERT_NE(left(result.ignored, "--seed"), nullptr);
    EXPECT_EQ(left(result.ignored, "--seed")->value, "1");
}

TEST(Megatron, RanksComeFromTheLauncher) {
    const auto data = [](const std::string& start) {
        const Imported result = imported(start + " pretrain_gpt.py " + kBase, 0);
        EXPECT_EQ(errors(result), "") << start;
        return at(result, "layout.data_parallel");
    };
    EXPECT_EQ(data("torchrun --nproc_per_node 8 --nnodes 4 --node_rank 0"), "32");
    EXPECT_EQ(data("torchrun --nproc-per-node=8"), "8");
    EXPECT_EQ(data("python -m torch.distributed.launch --nproc_per_node 8 --nnodes 2"), "16");
    EXPECT_EQ(data("srun -N 4 --ntasks-per-node=8 python -u"), "32");
    EXPECT_EQ(data("srun --ntasks 16 python"), "16");
    EXPECT_EQ(data("mpirun -np 16 python"), "16");
    EXPECT_EQ(data("deepspeed --num_nodes 2 --num_gpus 8"), "16");
    EXPECT_EQ(data("#SBATCH --nodes=2 --ntasks-per-node=8\nsrun python"), "16");
    EXPECT_EQ(data("N=2\ntorchrun --nproc_per_node 8 --nnodes $N"), "16");
    EXPECT_EQ(data("torchrun --nproc_per_node 8 --nnodes $NNODES"), "\"auto\"");
    EXPECT_EQ(data("python"), "\"auto\"");
    EXPECT_EQ(data("sh -c \"python pretrain_gpt.py --bf16 \" && srun -n 16 python"), "16");
}

TEST(Megatron, AWrappedCommandIsRead) {
    const Imported result = imported(std::string("OPTIONS=\"") + kBase +
                                         "\"\nCMD=\"python -u pretrain_gpt.py ${OPTIONS}\"\n"
                                         "srun -n 8 sh -c \"${CMD}\"",
                                     0);
    EXPECT_EQ(errors(result), "");
    EXPECT_EQ(at(result, "layout.data_parallel"), "8");
    EXPECT_EQ(at(result, "model.num_layers"), "32");
}

TEST(Megatron, WhatItCannotSayIsMissing) {
    const Imported result = imported("--num-layers 2 --hidden-size 64", 0);
    for (const char* key : {"model.num_attention_heads", "model.vocab_size", "cluster",
                            "training.sequence_length", "layout.global_batch_size"})
        EXPECT_TRUE(missing(result, key)) << key;
    EXPECT_FALSE(missing(result, "model.num_layers"));
}

TEST(Megatron, WhatFollowsAFlagIsNamed) {
    const Imported result = imported(std::string(kBase) + "--bf16 $EXTRA");
    EXPECT_EQ(at(result, "training.precision"), "\"bf16\"");
    ASSERT_EQ(result.unsupported.size(), 1u);
    EXPECT_EQ(result.unsupported[0].why, "what it stands for is not settled in this file");
}

TEST(Megatron, ConflictsShowTheArithmetic) {
    EXPECT_EQ(errors(imported(std::string(kBase) + "--tensor-model-parallel-size 8 "
                                                   "--pipeline-model-parallel-size 3")),
              "error[I004]: the degrees of parallelism do not divide the ranks\n"
              "  --> run.sh\n"
              "   |  ranks / (tensor × pipeline × context) = 64 / (8 × 3 × 1) = 2.66…\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(errors(imported(std::string(kBase) + "--micro-batch-size 3")),
              "error[I004]: the global batch is no whole number of micro-batches\n"
              "  --> run.sh:1:1   (= \"512\")\n"
              "   |  global batch / (micro-batch × data-parallel ranks) = 512 / (3 × 64) = 2.66…\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(errors(imported(std::string(kBase) + "--pipeline-model-parallel-size 4\\\n"
                                                   " --num-layers-per-virtual-pipeline-stage 3")),
              "error[I004]: the layers do not split into such stages\n"
              "  --> run.sh:2:1   (= \"3\")\n"
              "   |  layers / (pipeline × layers of a virtual stage) = 32 / (4 × 3) = 2.66…\n"
              "\n"
              "1 error; nothing was run.\n");
}

TEST(Megatron, WrongValuesAreReportedWithTheirLine) {
    EXPECT_EQ(errors(imported("--num-layers x \\\n--hidden-size 64 --num-attention-heads $H")),
              "error[I002]: --num-layers takes a whole number\n"
              "  --> run.sh:1:1   (= \"x\")\n"
              "\n"
              "error[I003]: the value of --num-attention-heads is not settled in this file\n"
              "  --> run.sh:2:1   (= \"$H\")\n"
              "   = help: give the number itself, or assign the variable above the command\n"
              "\n"
              "2 errors; nothing was run.\n");
}

TEST(Megatron, WhatIsNoCommandLineIsUnreadable) {
    const Imported open = imported("python a.py --num-layers 'x");
    EXPECT_TRUE(open.unreadable);
    EXPECT_EQ(errors(open),
              "error[I001]: this ' is not closed\n"
              "  --> run.sh:1:26\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(errors(imported("echo hello")),
              "error[I001]: no command here starts a training program (a word that ends in .py, or "
              "options alone)\n"
              "  --> run.sh:1:1\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(errors(imported("python a.py\npython b.py")),
              "error[I001]: 2 commands start a program, in lines 1, 2: leave one\n"
              "  --> run.sh:2:1\n"
              "\n"
              "1 error; nothing was run.\n");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
