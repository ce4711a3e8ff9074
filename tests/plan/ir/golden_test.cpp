// Goldens: the text of each kind of block and of what each pass makes of a small model, to be read
// and reviewed as diffs. ORRERY_REGENERATE=1 writes them anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "plan/assemble/build_plan.hpp"
#include "plan/text/text.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

void expect_narrow(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
        EXPECT_LE(
            std::count_if(line.begin(), line.end(),
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }),
            100)
            << line;
    }
}

void expect_golden(const std::string& name, const std::string& text) {
    expect_narrow(text);
    const std::string path = ORRERY_SOURCE_DIR "/tests/golden/plan/" + name + ".txt";
    if (const char* regenerate = std::getenv("ORRERY_REGENERATE");
        regenerate != nullptr && std::string(regenerate) == "1") {
        std::ofstream(path, std::ios::binary) << text;
        return;
    }
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path << " is missing; ORRERY_REGENERATE=1 writes it";
    const std::string golden{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text, golden) << path;
}

// The blocks of a part, forward and backward ("layer"), as the plan has them.
std::string blocks_named(const Plan& plan, const std::string& part) {
    std::string text;
    for (const Block& block : plan.blocks)
        if (block.name.compare(0, part.size() + 1, part + '.') == 0)
            text += (text.empty() ? "" : "\n") + to_text(block);
    return text;
}

// What passes add: every block but the parts of the model, and the programs.
std::string without_parts(const Plan& plan) {
    std::istringstream lines(to_text(plan));
    std::string text;
    std::string line;
    bool skipping = false;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string first, number, name;
        words >> first >> number >> name;
        const std::string part = name.substr(0, name.find('.'));
        if (first == "block") skipping = part == "embedding" || part == "layer" || part == "head";
        if (first == "program" || first == "end") skipping = false;
        if (!skipping) text += line + '\n';
    }
    return text;
}

Scenario tensor_2(Scenario s) {
    set_tensor(s, 2, false);
    return s;
}

Scenario sequence_2(Scenario s) {
    set_tensor(s, 2, true);
    return s;
}

TEST(PlanGolden, EmbeddingBlocks) {
    expect_golden("embedding", blocks_named(build_plan(small_gpt2()), "embedding"));
    expect_golden("embedding_tensor",
                  blocks_named(build_plan(tensor_2(small_gpt2())), "embedding"));
    Scenario s = sequence_2(small_gpt2());
    set_unfused_dropout(s);
    expect_golden("embedding_sequence_dropout", blocks_named(build_plan(s), "embedding"));
    expect_golden("embedding_llama",
                  blocks_named(build_plan(sequence_2(small_llama())), "embedding"));
}

TEST(PlanGolden, LayersThatShareASequence) {
    Scenario s = small_llama();
    s.layout.context_parallel = 3;
    s.training.sequence_length = 36;
    expect_golden("context_ring", blocks_named(build_plan(s), "layer"));
    s.layout.context_parallel = 2;
    s.layout.context_algorithm = ContextAlgorithm::all_gather;
    expect_golden("context_all_gather", blocks_named(build_plan(s), "layer"));
    s.layout.context_algorithm = ContextAlgorithm::all_to_all;
    s.layout.micro_batch_size = s.layout.global_batch_size = 2;
    expect_golden("context_all_to_all", blocks_named(build_plan(s), "layer"));
}

TEST(PlanGolden, HeadBlocks) {
    expect_golden("head", blocks_named(build_plan(small_gpt2()), "head"));
    expect_golden("head_tensor", blocks_named(build_plan(tensor_2(small_gpt2())), "head"));
    expect_golden("head_sequence", blocks_named(build_plan(sequence_2(small_gpt2())), "head"));
    expect_golden("head_llama", blocks_named(build_plan(small_llama()), "head"));
    Scenario s = tensor_2(small_llama());
    s.training.framework.logits_dtype = LogitsType::fp32;
    expect_golden("head_fp32_logits", blocks_named(build_plan(s), "head"));
    Scenario fused = small_gpt2();
    fused.training.framework.loss_logits = LossLogits::fused;
    expect_golden("head_fused", blocks_named(build_plan(fused), "head"));
    Scenario chunked = sequence_2(small_gpt2());
    chunked.training.loss_chunks = 2;
    expect_golden("head_chunks_sequence", blocks_named(build_plan(chunked), "head"));
    Scenario shared = small_llama();
    shared.layout.pipeline_parallel = 2;
    shared.layout.layers_per_stage = {2, 2};
    shared.layout.vocabulary_parallel = VocabularyParallel::vocab_2;
    expect_golden("head_one_barrier", blocks_named(build_plan(shared), "head"));
}

TEST(PlanGolden, LayerBlocksOfGpt2) {
    expect_golden("layer_gpt2", blocks_named(build_plan(small_gpt2()), "layer"));
    expect_golden("layer_gpt2_tensor", blocks_named(build_plan(tensor_2(small_gpt2())), "layer"));
    expect_golden("layer_gpt2_sequence",
                  blocks_named(build_plan(sequence_2(small_gpt2())), "layer"));
    Scenario s = small_gpt2();
    set_unfused_dropout(s);
    expect_golden("layer_gpt2_unfused_dropout", blocks_named(build_plan(s), "layer"));
    s.training.framework.dropout_masks = DropoutMasks::recomputed;
    expect_golden("layer_gpt2_recomputed_masks", blocks_named(build_plan(s), "layer"));
    s.training.precision = Precision::fp32;
    s.model.hidden_dropout = s.model.attention().dropout = 0;
    expect_golden("layer_gpt2_unfused_fp32", blocks_named(build_plan(s), "layer"));
}

TEST(PlanGolden, LayerBlocksOfLlama) {
    expect_golden("layer_llama", blocks_named(build_plan(small_llama()), "layer"));
    expect_golden("layer_llama_tensor", blocks_named(build_plan(tensor_2(small_llama())), "layer"));
    expect_golden("layer_llama_sequence",
                  blocks_named(build_plan(sequence_2(small_llama())), "layer"));
}

// Experts on both ranks of a tensor group, and on those of a data group beside it, each cut in two.
TEST(PlanGolden, LayerBlocksOfExperts) {
    expect_golden("layer_experts", blocks_named(build_plan(small_mixtral()), "layer"));
    Scenario s = sequence_2(small_mixtral());
    s.layout.expert_parallel = 2;
    expect_golden("layer_experts_sequence", blocks_named(build_plan(s), "layer"));
    set_data(s, 4);
    s.layout.expert_tensor_parallel = 2;
    s.layout.zero_stage = 1;
    expect_golden("plan_experts", to_text(build_plan(s)));
}

// Adapters beside frozen linears: the tensor group's sums are the linears' own.
TEST(PlanGolden, LayerBlocksOfAdapters) {
    Scenario s = small_llama();
    s.training.lora.rank = 4;
    expect_golden("layer_lora_tensor", blocks_named(build_plan(tensor_2(s)), "layer"));
    s.training.lora.fc1 = s.training.lora.projection = false;
    expect_golden("layer_lora_sequence", blocks_named(build_plan(sequence_2(s)), "layer"));
    Scenario eight_bit = sequence_2(s);
    eight_bit.training.lora.qkv = false;
    eight_bit.training.precision = Precision::fp8;
    eight_bit.training.fp8 = {Fp8Recipe::delayed, true, true, true};
    expect_golden("layer_lora_fp8_sequence", blocks_named(build_plan(eight_bit), "layer"));
    set_pipeline(s, "1f1b", 2, 1, 4);
    s.layout.data_parallel = 2;
    s.layout.zero_stage = 3;
    s.layout.global_batch_size *= 2;
    expect_golden("plan_lora_zero_3", to_text(build_plan(s)));
}

// As each recipe's stack does it: sequence-parallel, where copies are gathered, and alone.
TEST(PlanGolden, EightBitLayers) {
    Scenario s = sequence_2(small_llama());
    s.training.precision = Precision::fp8;
    s.training.fp8 = {Fp8Recipe::delayed, true, true, true};
    expect_golden("layer_fp8_delayed_sequence", blocks_named(build_plan(s), "layer"));
    s.training.fp8 = {Fp8Recipe::tensorwise, true, true, true};
    expect_golden("layer_fp8_tensorwise_sequence", blocks_named(build_plan(s), "layer"));
    s.training.fp8 = {Fp8Recipe::rowwise, false, false, true};
    expect_golden("layer_fp8_rowwise_sequence", blocks_named(build_plan(s), "layer"));
    s.training.fp8 = {Fp8Recipe::blockwise, true, true, true};
    expect_golden("layer_fp8_blockwise_sequence", blocks_named(build_plan(s), "layer"));
    s.training.fp8 = {Fp8Recipe::mxfp8, true, true, false};
    expect_golden("layer_fp8_mxfp8_sequence", blocks_named(build_plan(s), "layer"));
    s = small_gpt2();
    s.training.precision = Precision::fp8;
    s.training.fp8 = {Fp8Recipe::tensorwise, false, true, false};
    expect_golden("layer_fp8_tensorwise", blocks_named(build_plan(s), "layer"));
    s = tensor_2(small_llama());
    set_pipeline(s, "1f1b", 2, 1, 3);
    s.training.precision = Precision::fp8;
    s.training.fp8 = {Fp8Recipe::delayed, true, true, true};
    expect_golden("fp8_delayed_plan", without_parts(build_plan(s)));
}

// Of 32 positions each sees 8; a window that holds the sequence is none.
TEST(PlanGolden, LayerBlocksOfAWindow) {
    Scenario s = small_llama();
    const std::string whole = blocks_named(build_plan(s), "layer");
    s.model.attention().window = 32;
    EXPECT_EQ(blocks_named(build_plan(s), "layer"), whole);
    s.model.attention().window = 8;
    expect_golden("layer_mistral_window", blocks_named(build_plan(s), "layer"));
}

TEST(PlanGolden, LayerBlocksOfOtherFamilies) {
    expect_golden("layer_qwen2", blocks_named(build_plan(tensor_2(small_qwen2())), "layer"));
    expect_golden("layer_gemma", blocks_named(build_plan(small_gemma()), "layer"));
    expect_golden("layer_opt", blocks_named(build_plan(small_opt()), "layer"));
    expect_golden("layer_bloom", blocks_named(build_plan(small_bloom()), "layer"));
    Scenario unfused = small_bloom();
    set_unfused_dropout(unfused);
    expect_golden("layer_bloom_unfused_dropout", blocks_named(build_plan(unfused), "layer"));
    expect_golden("embedding_norm_sequence",
                  blocks_named(build_plan(sequence_2(small_bloom())), "embedding_norm"));
    expect_golden("positions_opt", blocks_named(build_plan(small_opt()), "positions"));
}

// Norms of heads; norms behind the branches alone, and of whole rows.
TEST(PlanGolden, LayerBlocksWithNormsOfQueriesAndKeys) {
    Scenario qwen3 = small_llama();
    qwen3.model.attention().qk_norm = QkNorm::heads;
    expect_golden("layer_qwen3_tensor", blocks_named(build_plan(tensor_2(qwen3)), "layer"));
    Scenario olmo2 = small_llama();
    olmo2.model.attention().qk_norm = QkNorm::width;
    olmo2.model.layer().norm_before = false;
    olmo2.model.layer().norm_after = true;
    expect_golden("layer_olmo2_tensor", blocks_named(build_plan(tensor_2(olmo2)), "layer"));
}

// Caps and norms around the branches; sinks; each with a kind of layer that sees a window.
TEST(PlanGolden, LayerBlocksOfSeveralKinds) {
    const auto with_window = [](Scenario s) {
        s.model.kinds.front().name = "full";
        s.model.kinds.push_back(s.model.kinds.front());
        s.model.kinds.back().name = "sliding";
        s.model.kinds.back().attention().window = 8;
        s.model.kind_of_layer = {1, 0, 1, 0};
        return s;
    };
    Scenario gemma2 = small_gemma();
    gemma2.model.layer().norm_after = true;
    gemma2.model.attention().soft_cap = 50;
    gemma2.model.logit_soft_cap = 30;
    const Plan plan = build_plan(with_window(gemma2));
    expect_golden("layer_gemma2_sliding", blocks_named(plan, "sliding_layer"));
    expect_golden("layer_gemma2_full", blocks_named(plan, "full_layer"));
    Scenario sinks = small_llama();
    sinks.model.attention().sinks = true;
    expect_golden("layer_sinks", blocks_named(build_plan(sinks), "layer"));
    sinks.layout.context_parallel = 2;
    expect_golden("layer_sinks_ring",
                  blocks_named(build_plan(with_window(sinks)), "sliding_layer"));
}

TEST(PlanGolden, ParallelBlocks) {
    const Scenario shared = small_falcon(true);
    const Scenario split = small_falcon(false);
    expect_golden("layer_parallel_shared", blocks_named(build_plan(shared), "layer"));
    expect_golden("layer_parallel_shared_tensor",
                  blocks_named(build_plan(tensor_2(shared)), "layer"));
    expect_golden("layer_parallel_shared_sequence",
                  blocks_named(build_plan(sequence_2(shared)), "layer"));
    expect_golden("layer_parallel_split_tensor",
                  blocks_named(build_plan(tensor_2(split)), "layer"));
    expect_golden("layer_parallel_split_sequence",
                  blocks_named(build_plan(sequence_2(split)), "layer"));
    Scenario biased = small_gpt_neox();
    set_unfused_dropout(biased);
    expect_golden("layer_gpt_neox_unfused_dropout", blocks_named(build_plan(biased), "layer"));
    Scenario again = sequence_2(shared);
    again.layout.recompute = Recompute::full;
    expect_golden("recompute_full_parallel_shared_sequence",
                  blocks_named(build_plan(again), "layer"));
}

TEST(PlanGolden, Recomputation) {
    Scenario s = sequence_2(small_gpt2());
    set_unfused_dropout(s);
    s.layout.recompute = Recompute::selective;
    expect_golden("recompute_selective", blocks_named(build_plan(s), "layer"));
    s.layout.recompute = Recompute::full;
    expect_golden("recompute_full", blocks_named(build_plan(s), "layer"));
    Scenario flash = tensor_2(small_llama());
    flash.layout.recompute = Recompute::full;
    expect_golden("recompute_full_llama_tensor", blocks_named(build_plan(flash), "layer"));
    flash.layout.recompute = Recompute::every_k;
    flash.layout.recompute_every = 3;  // of 4 layers: a group of three, and one alone
    const Plan grouped = build_plan(flash);
    expect_golden("recompute_every", blocks_named(grouped, "layer"));
    expect_golden("recompute_every_plan", without_parts(grouped));
    flash.layout.recompute = Recompute::selective_op;
    expect_golden("recompute_selective_op", blocks_named(build_plan(flash), "layer"));
    Scenario modules = sequence_2(small_llama());
    modules.layout.recompute = Recompute::selective;
    modules.layout.recompute_modules = {false, true, true, false};
    expect_golden("recompute_modules", blocks_named(build_plan(modules), "layer"));
    modules.layout.recompute_modules = {false, true, false, true};
    expect_golden("recompute_discarded", blocks_named(build_plan(modules), "layer"));
    flash.layout.recompute = Recompute::selective_layer;
    flash.layout.recompute_every = 2;
    expect_golden("recompute_selective_layer_plan", without_parts(build_plan(flash)));
}

// The sum and its norm are one op in forward and where it is made again; a norm that is made again
// alone stays one. Copies of the sum may come between the two.
TEST(PlanGolden, NormsThatAdd) {
    Scenario s = sequence_2(small_gpt2());
    set_unfused_dropout(s);
    s.training.framework.norm_kernel = NormKernel::fused_add;
    s.layout.recompute = Recompute::full;
    expect_golden("norms_added_again", blocks_named(build_plan(s), "layer"));
    Scenario packed = small_llama();
    packed.training.framework.norm_kernel = NormKernel::fused_add;
    packed.layout.activation_stash = ActivationStash::fp8;
    packed.layout.recompute = Recompute::selective;
    packed.layout.recompute_modules = {false, true, false, false};
    expect_golden("norms_added_packed", blocks_named(build_plan(packed), "layer"));
}

// Product and function are one op in forward, and where the layer is made again; the slope is in
// the second product's gradient.
TEST(PlanGolden, Epilogues) {
    Scenario s = small_gpt2();
    s.training.framework.activation_kernel = ActivationKernel::epilogue;
    expect_golden("epilogues", blocks_named(build_plan(s), "layer"));
    s.layout.recompute = Recompute::full;
    expect_golden("epilogues_again", blocks_named(build_plan(s), "layer"));
}

// Both sums of a layer, the first one again where the layer is made again; norms of fused_add have
// nothing left.
TEST(PlanGolden, ResidualProducts) {
    Scenario s = small_gpt2();
    s.training.framework.residual_kernel = ResidualKernel::epilogue;
    s.training.framework.norm_kernel = NormKernel::fused_add;
    expect_golden("residual_products", blocks_named(build_plan(s), "layer"));
    s.layout.recompute = Recompute::full;
    expect_golden("residual_products_again", blocks_named(build_plan(s), "layer"));
}

// Of every linear, but where the bias is added to a share of its product's rows.
TEST(PlanGolden, BiasGradients) {
    Scenario s = small_gpt2();
    s.training.framework.bias_gradient_kernel = BiasGradientKernel::epilogue;
    expect_golden("bias_gradients", blocks_named(build_plan(s), "layer"));
    expect_golden("bias_gradients_sequence", blocks_named(build_plan(sequence_2(s)), "layer"));
}

TEST(PlanGolden, SerialisedTensorCommunication) {
    Scenario s = sequence_2(small_gpt2());
    s.training.framework.overlap_tensor_backward = false;
    expect_golden("tensor_serialised_sequence", blocks_named(build_plan(s), "layer"));
    s.layout.sequence_parallel = false;
    expect_golden("tensor_serialised", blocks_named(build_plan(s), "layer"));
}

// Backward reads nothing behind the activation: neither the product down nor what follows is again.
TEST(PlanGolden, RecomputationThatStopsEarly) {
    Scenario s = sequence_2(small_llama());
    s.layout.recompute = Recompute::full;
    s.training.framework.recompute_stops_early = true;
    expect_golden("recompute_early", blocks_named(build_plan(s), "layer"));
}

// Untied, two data-parallel ranks, two micro-batches, buckets of about two layers.
Scenario bucketed() {
    Scenario s = small_llama();
    set_micro_batches(s, 2);
    set_data(s, 2);
    s.training.framework.gradient_bucket_mb = 0.2;
    s.training.optimizer.clip_norm = 0;
    return s;
}

TEST(PlanGolden, Overlap) {
    Scenario s = sequence_2(small_gpt2());
    s.training.framework.tensor_overlap_parts = 2;
    expect_golden("tensor_parts", blocks_named(build_plan(s), "layer"));
    s = bucketed();
    s.layout.zero_stage = 1;
    s.training.framework.overlap_parameter_gather = true;
    expect_golden("zero_1_gathered_ahead", without_parts(build_plan(s)));
    s = small_gpt2();
    s.layout.pipeline_parallel = 2;
    s.layout.layers_per_stage = {2, 2};
    s.layout.global_batch_size = 3;
    s.training.framework.overlap_pipeline_transfers = TransferOverlap::never;
    expect_golden("transfers_blocking", without_parts(build_plan(s)));
    s.training.framework.overlap_pipeline_transfers = TransferOverlap::always;
    s.training.framework.defer_embedding_gradient = true;
    expect_golden("head_deferred", without_parts(build_plan(s)));
}

TEST(PlanGolden, GradientBuckets) {
    Scenario s = bucketed();
    expect_golden("buckets_overlapped", without_parts(build_plan(s)));
    s.training.framework.overlap_gradient_reduce = false;
    expect_golden("buckets_at_the_end", without_parts(build_plan(s)));
    s = bucketed();
    set_tensor(s, 2, true);
    expect_golden("buckets_sequence", without_parts(build_plan(s)));
}

TEST(PlanGolden, Zero) {
    for (int stage = 1; stage <= 3; ++stage) {
        Scenario s = bucketed();
        s.layout.zero_stage = stage;
        expect_golden("zero_" + std::to_string(stage), without_parts(build_plan(s)));
    }
    Scenario s = bucketed();
    s.layout.zero_stage = 1;
    s.training.framework.overlap_gradient_reduce = false;
    expect_golden("zero_1_at_the_end", without_parts(build_plan(s)));
}

TEST(PlanGolden, ZeroPrefetchAndReshard) {
    Scenario s = bucketed();
    s.layout.zero_stage = 3;
    for (int prefetch : {0, 2}) {
        s.training.framework.zero_prefetch = prefetch;
        expect_golden("zero_3_prefetch_" + std::to_string(prefetch), without_parts(build_plan(s)));
    }
    s.training.framework.zero_prefetch = 1;
    s.layout.reshard_after_forward = false;
    set_pipeline(s, "1f1b", 2, 1, 3);
    expect_golden("zero_3_kept", without_parts(build_plan(s)));
}

TEST(PlanGolden, HybridZero) {
    for (int stage = 1; stage <= 3; ++stage) {
        Scenario s = bucketed();
        set_data(s, 4);
        s.layout.zero_stage = stage;
        s.layout.zero_group_size = 2;
        if (stage == 3) s.training.optimizer.clip_norm = 1;
        expect_golden("zero_" + std::to_string(stage) + "_hybrid", without_parts(build_plan(s)));
    }
    Scenario s = bucketed();
    set_tensor(s, 2, true);
    s.layout.zero_stage = 2;
    expect_golden("zero_2_sequence", without_parts(build_plan(s)));
}

// The group that is asked for in words or by its size: one plan.
TEST(HybridZero, OverAllDataRanksIsZeroOverAll) {
    for (int stage = 1; stage <= 3; ++stage) {
        Scenario s = bucketed();
        s.training.optimizer.clip_norm = 1;
        s.layout.zero_stage = stage;
        const Plan over_all = build_plan(s);
        s.layout.zero_group_size = s.layout.data_parallel;
        EXPECT_EQ(build_plan(s), over_all) << stage;
    }
}

// One rank alone has nothing to share: states are whole, and so are reductions.
TEST(HybridZero, OverOneRankIsNoZero) {
    Scenario s = bucketed();
    const Plan none = build_plan(s);
    s.layout.zero_stage = 3;
    s.layout.zero_group_size = 1;
    EXPECT_EQ(build_plan(s), none);
}

TEST(PlanGolden, Clipping) {
    Scenario s = bucketed();
    s.training.optimizer.clip_norm = 1;
    set_tensor(s, 2, false);
    expect_golden("clipping", without_parts(build_plan(s)));
    s.layout.zero_stage = 1;
    expect_golden("clipping_zero_1", without_parts(build_plan(s)));
}

TEST(PlanGolden, LossScale) {
    Scenario s = bucketed();
    s.training.precision = Precision::fp16;
    s.training.optimizer.clip_norm = 1;
    set_tensor(s, 2, false);
    const Plan dynamic = build_plan(s);
    expect_golden("loss_scale_dynamic",
                  without_parts(dynamic) + '\n' + blocks_named(dynamic, "head"));
    s.training.loss_scale = 1024;
    s.training.optimizer.clip_norm = 0;
    s.layout.zero_stage = 1;
    expect_golden("loss_scale_static_zero_1", without_parts(build_plan(s)));
}

// On two stages, of which the second has the loss; with fp16, whose overflow decides first.
TEST(PlanGolden, LossSpike) {
    Scenario s = small_llama();
    s.training.precision = Precision::fp16;
    s.training.optimizer.clip_norm = 0;
    s.training.loss_spike = {1.5, 4};
    set_pipeline(s, "1f1b", 2, 1, 2);
    expect_golden("loss_spike", without_parts(build_plan(s)));
}

TEST(PlanGolden, TiedEmbedding) {
    for (int zero : {0, 2}) {
        Scenario s = small_gpt2();
        s.training.optimizer.clip_norm = 0;
        set_micro_batches(s, 2);
        set_data(s, 2);
        s.layout.zero_stage = zero;
        const std::string suffix = zero == 0 ? "" : "_zero_2";
        expect_golden("tied_pipeline_1" + suffix, without_parts(build_plan(s)));
        set_pipeline(s, "1f1b", 2, 1, 2);
        expect_golden("tied_pipeline_2" + suffix, without_parts(build_plan(s)));
    }
    Scenario s = small_gpt2();
    s.training.optimizer.clip_norm = 0;
    set_data(s, 4);
    s.layout.zero_stage = 3;
    s.layout.zero_group_size = 2;
    s.layout.reshard_after_forward = false;
    expect_golden("tied_pipeline_1_zero_3_hybrid_kept", without_parts(build_plan(s)));
}

TEST(PlanGolden, StepsThatRunOn) {
    Scenario s = small_gpt2();
    set_pipeline(s, "1f1b", 2, 1, 2);
    set_data(s, 2);
    s.layout.zero_stage = 1;
    s.layout.staleness = 2;
    expect_golden("staleness", without_parts(build_plan(s)));
}

TEST(PlanGolden, BackwardInHalves) {
    Scenario s = sequence_2(small_llama());
    set_pipeline(s, "zb-h1", 2, 1, 3);
    const Plan plan = build_plan(s);
    expect_golden("halves_llama_sequence", blocks_named(plan, "layer"));
    expect_golden("plan_zb_h1", without_parts(plan));
    s.layout.optimizer_post_validation = true;
    expect_golden("post_validation", without_parts(build_plan(s)));
    s = sequence_2(small_gpt2());
    set_pipeline(s, "zb-h1", 2, 1, 2);
    expect_golden("halves_gpt2_sequence", blocks_named(build_plan(s), "layer"));
    expect_golden("halves_head_sequence", blocks_named(build_plan(s), "head"));
    s.layout.recompute = Recompute::full;
    expect_golden("halves_recompute_full", blocks_named(build_plan(s), "layer"));
    set_data(s, 2);
    s.layout.recompute = Recompute::none;
    s.layout.zero_stage = 2;
    expect_golden("halves_zero_2", blocks_named(build_plan(s), "layer"));
}

// Both ends of a tied embedding on the first rank, some backward passes whole, and boundaries
// within a rank.
TEST(PlanGolden, DualPipeV) {
    Scenario s = small_gpt2();
    s.training.optimizer.clip_norm = 0;
    set_pipeline(s, "dualpipe-v", 2, 2, 4);
    expect_golden("plan_dualpipe_v", without_parts(build_plan(s)));
}

TEST(PlanGolden, OptimizerOfOneRank) {
    Scenario s = small_llama();
    s.training.optimizer.clip_norm = 0;
    expect_golden("optimizer", without_parts(build_plan(s)));
    s.training.precision = Precision::fp32;
    expect_golden("optimizer_fp32", without_parts(build_plan(s)));
}

// States on the host and on disk; a stash on the host, in GPipe, whose micro-batches wait long.
TEST(PlanGolden, Offload) {
    Scenario s = bucketed();
    s.layout.zero_stage = 1;
    s.layout.offload.optimizer = KeptOn::host;
    expect_golden("offload_optimizer", without_parts(build_plan(s)));
    s.layout.zero_stage = 3;
    s.training.optimizer.clip_norm = 1;
    s.layout.offload = {KeptOn::disk, KeptOn::host, KeptOn::host, KeptOn::none, 1};
    expect_golden("offload_states_zero_3", without_parts(build_plan(s)));
    s = small_llama();
    s.training.optimizer.clip_norm = 0;
    set_pipeline(s, "gpipe", 2, 1, 4);
    s.layout.offload.activations = KeptOn::host;
    expect_golden("offload_activations", without_parts(build_plan(s)));
    s.layout.offload.activations = KeptOn::disk;
    s.layout.offload.prefetch = 0;
    expect_golden("offload_activations_disk", without_parts(build_plan(s)));
}

TEST(PlanGolden, ScatteredTransfers) {
    Scenario s = small_llama();
    s.training.optimizer.clip_norm = 0;
    set_pipeline(s, "1f1b", 2, 1, 2);
    set_tensor(s, 2, false);
    s.training.framework.scatter_gather_transfers = true;
    expect_golden("transfers_scattered", without_parts(build_plan(s)));
    s.training.framework.scatter_gather_transfers = false;
    expect_golden("transfers_whole", without_parts(build_plan(s)));
}

TEST(PlanGolden, WholePlans) {
    Scenario s = small_llama();
    set_pipeline(s, "1f1b", 2, 1, 4);
    expect_golden("plan_1f1b", to_text(build_plan(s)));
    set_pipeline(s, "gpipe", 2, 1, 4);
    expect_golden("plan_gpipe", to_text(build_plan(s)));
    set_pipeline(s, "interleaved", 2, 2, 4);
    expect_golden("plan_interleaved", to_text(build_plan(s)));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
