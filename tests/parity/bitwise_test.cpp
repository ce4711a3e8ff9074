// What is promised to the last bit: canonical order makes some layouts, and every timing of one
// layout, compute the same numbers.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

Trained train_sets(Sets sets, const RunOptions& options = {}, const char* text = kGpt) {
    sets.push_back("training.precision=fp32");
    return train(scenario(text, sets), options);
}

TEST(Bitwise, ShardsOfOptimizerStatesDoNotChangeTheModel) {
    const Sets whole = {"layout.data_parallel=4", "training.gradient_bucket_mb=0.02"};
    Sets sharded = whole;
    sharded.push_back("layout.zero_stage=1");
    expect_same_bits(train_sets(sharded), train_sets(whole));
}

// With one micro-batch: of several, these sum each one over ranks before they sum over them. And
// without tied embeddings, both of whose gradients are summed over ranks before they are added.
TEST(Bitwise, NorDoShardsOfGradientsAndParameters) {
    const Sets whole = {"layout.data_parallel=4", "layout.micro_batch_size=2"};
    const Trained expected = train_sets(whole, {}, kLlama);
    for (const char* stage : {"2", "3"}) {
        Sets sharded = whole;
        sharded.push_back(std::string("layout.zero_stage=") + stage);
        expect_same_bits(train_sets(sharded, {}, kLlama), expected);
    }
}

// What is copied is the same numbers.
TEST(Bitwise, NorDoCopiesInAndOutOfBuffers) {
    RunOptions few;
    few.steps = 3;
    const Sets layouts[] = {
        {"layout.data_parallel=2", "layout.zero_stage=2"},
        {"layout.data_parallel=2", "layout.zero_stage=3", "training.zero_prefetch=0"},
        {"layout.data_parallel=2", "layout.zero_stage=3", "layout.reshard_after_forward=false",
         "model.tie_word_embeddings=true"},
        {"layout.data_parallel=4", "layout.zero_stage=3", "layout.zero_group_size=2",
         "layout.tensor_parallel=2", "layout.sequence_parallel=true"},
        {"layout.data_parallel=2", "layout.zero_stage=3", "layout.pipeline_parallel=2",
         "layout.virtual_pipeline=2", "layout.schedule=zb-v", "layout.recompute=full"}};
    for (const Sets& in_place : layouts) {
        const Trained expected = train_sets(in_place, few, kLlama);
        for (const char* buffers : {"flat", "copied", "bucketed"}) {
            Sets copied = in_place;
            copied.push_back(std::string("training.sharded_buffers=") + buffers);
            expect_same_bits(train_sets(copied, few, kLlama), expected);
        }
    }
}

TEST(Bitwise, PipelinesComputeWhatOneRankDoes) {
    const Trained one = train_sets({});
    for (const Sets& sets : {Sets{"layout.pipeline_parallel=2"}, Sets{"layout.pipeline_parallel=4"},
                             Sets{"layout.pipeline_parallel=2", "layout.schedule=gpipe"},
                             Sets{"layout.pipeline_parallel=2", "layout.schedule=interleaved",
                                  "layout.virtual_pipeline=2"}})
        expect_same_bits(train_sets(sets), one);
}

// Backward in halves sums what it sums whole, in the same order. A tied embedding of which one rank
// holds both ends is added before its gradients are summed over ranks, not after: those are left to
// the tolerances of other layouts.
class Halves : public testing::TestWithParam<NamedLayout> {};

TEST_P(Halves, ComputeWhatWholePassesDo) {
    RunOptions few;
    few.steps = 3;
    const Sets halves = GetParam().sets;
    Sets whole;
    for (const std::string& set : halves)
        if (!set.starts_with("layout.schedule=") && !set.starts_with("layout.virtual_pipeline="))
            whole.push_back(set);
    expect_same_bits(train_sets(halves, few, kLlama), train_sets(whole, few, kLlama));
}

INSTANTIATE_TEST_SUITE_P(All, Halves, testing::ValuesIn(zero_bubble_layouts()),
                         [](const auto& tested) { return tested.param.name; });

TEST(Bitwise, StagesInAVOfFourRanksComputeWhatOneRankDoes) {
    RunOptions few;
    few.steps = 3;
    const std::string layers = "model.num_hidden_layers=8";
    const Trained one = train_sets({layers}, few, kLlama);
    for (const std::string schedule : {"zb-v", "v-half", "dualpipe-v"})
        expect_same_bits(train_sets({layers, "layout.pipeline_parallel=4",
                                     "layout.virtual_pipeline=2", "layout.schedule=" + schedule},
                                    few, kLlama),
                         one);
}

TEST(Bitwise, HalvesScaleTheLossAndDropAsWholePassesDo) {
    for (const Sets& sets : {Sets{"training.precision=fp16"}, Sets{"training.precision=bf16"},
                             Sets{"training.precision=fp32", "training.dropout=0.1"}}) {
        Sets whole = sets;
        whole.push_back("layout.pipeline_parallel=2");
        Sets halves = whole;
        halves.push_back("layout.schedule=zb-h1");
        RunOptions few;
        few.steps = 3;
        expect_same_bits(train(scenario(kGpt, halves), few), train(scenario(kGpt, whole), few));
    }
}

TEST(Bitwise, RecomputationRepeatsTheForwardPass) {
    const Trained kept = train_sets({});
    expect_same_bits(train_sets({"layout.recompute=full"}), kept);
    expect_same_bits(train_sets({"layout.recompute=every_k", "layout.recompute_every=2"}), kept);
    expect_same_bits(
        train_sets({"layout.recompute=selective", "training.attention_kernel=unfused"}),
        train_sets({"training.attention_kernel=unfused"}));
    expect_same_bits(train_sets({"layout.recompute=selective_op"}), kept);
    expect_same_bits(train_sets({"layout.recompute=selective_layer"}), kept);
    expect_same_bits(train_sets({"layout.recompute=selective_op"}, {}, kLlama),
                     train_sets({}, {}, kLlama));
}

// On CPU ranks it changes the plan alone: the gradient of queries has room that nothing reads.
TEST(Bitwise, AnyOrderIsTheOneOrderOfTheCpu) {
    const Sets half = {"training.precision=bf16"};
    Sets any_order = half;
    any_order.push_back("training.deterministic=false");
    RunOptions few;
    few.steps = 3;
    few.change_plan = [](plan::Plan& plan) {
        std::int64_t in_any_order = 0;
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                if (op.is<plan::AttentionBackward>())
                    in_any_order += op.as<plan::AttentionBackward>().any_order ? 1 : 0;
        EXPECT_GT(in_any_order, 0);
    };
    const Trained found = train(scenario(kLlama, any_order), few);
    few.change_plan = nullptr;
    expect_same_bits(found, train(scenario(kLlama, half), few));
}

TEST(Bitwise, SoDoModulesThatAreMadeAgain) {
    const Sets unfused = {"training.attention_kernel=unfused"},
               shards = {"layout.tensor_parallel=2", "layout.sequence_parallel=true"};
    for (const char* list :
         {R"(["mlp"])", R"(["layernorm"])", R"(["mlp_act"])", R"(["core_attn","layernorm","mlp"])",
          R"(["core_attn","layernorm","mlp_act"])"})
        for (const Sets& sets : {unfused, shards})
            for (const char* model : {kGpt, kLlama}) {
                RunOptions few;
                few.steps = 2;
                Sets again = sets;
                again.push_back("layout.recompute=selective");
                again.push_back(std::string("layout.recompute_modules=") + list);
                expect_same_bits(train_sets(again, few, model), train_sets(sets, few, model));
            }
}

// Each element is rounded by itself, so that where states lie changes nothing; and rounding changes
// something.
TEST(Bitwise, StatesOfSixteenBitsRoundAlikeInEveryShard) {
    for (const char* main : {"fp32", "none"})
        for (const char* second : {"bf16", "fp32"}) {
            const Sets types = {"training.precision=bf16",
                                "layout.data_parallel=4",
                                "training.gradient_bucket_mb=0.02",
                                "training.optimizer.exp_avg_dtype=bf16",
                                std::string("training.optimizer.exp_avg_sq_dtype=") + second,
                                std::string("training.optimizer.main_params_dtype=") + main};
            Sets sharded = types;
            sharded.push_back("layout.zero_stage=1");
            RunOptions few;
            few.steps = 3;
            const Trained whole = train(scenario(kGpt, types), few);
            expect_same_bits(train(scenario(kGpt, sharded), few), whole);
            const Trained wide = train(scenario(kGpt, {types[0], types[1], types[2]}), few);
            EXPECT_NE(whole.parameters, wide.parameters);
            EXPECT_NEAR(whole.losses.back(), wide.losses.back(), 0.02 * wide.losses.back());
        }
}

TEST(Bitwise, AFusedLossIsTheSameLoss) {
    RunOptions few;
    few.steps = 3;
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
        const Sets plain = {std::string("training.precision=") + precision};
        Sets fused = plain;
        fused.push_back("training.loss_logits=fused");
        expect_same_bits(train(scenario(kGpt, fused), few), train(scenario(kGpt, plain), few));
    }
}

std::int64_t ops_of(const plan::Plan& plan, plan::OpKind kind) {
    std::int64_t count = 0;
    for (const plan::Block& block : plan.blocks)
        count += std::count_if(block.ops.begin(), block.ops.end(),
                               [&](const plan::Op& op) { return op.kind() == kind; });
    return count;
}

// That ops of a kind in place of two train the same model, to the last bit.
void expect_fused(const char* text, const Sets& sets, const char* key, plan::OpKind kind) {
    RunOptions few;
    few.steps = 2;
    const Trained apart = train(scenario(text, sets), few);
    Sets together = sets;
    together.emplace_back(key);
    few.change_plan = [kind](plan::Plan& plan) { EXPECT_GT(ops_of(plan, kind), 0); };
    expect_same_bits(train(scenario(text, together), few), apart);
}

// A norm that makes the sum that it reads.
void expect_added_norms(const char* text, const Sets& sets) {
    expect_fused(text, sets, "training.norm_kernel=fused_add", plan::OpKind::residual_norm);
}

Sets in_fp32_unless_said(Sets sets) {
    if (std::none_of(sets.begin(), sets.end(),
                     [](const std::string& set) { return set.starts_with("training.precision="); }))
        sets.emplace_back("training.precision=fp32");
    return sets;
}

class FusedKernels : public testing::TestWithParam<NamedLayout> {};

TEST_P(FusedKernels, OfNormsComputeWhatTwoKernelsDo) {
    for (const char* text : {kGpt, kLlama})
        expect_added_norms(text, in_fp32_unless_said(GetParam().sets));
}

TEST_P(FusedKernels, OfProductsComputeWhatTwoKernelsDo) {
    if (GetParam().name == "sequence_parts") GTEST_SKIP() << "products go in parts";
    expect_fused(kGpt, in_fp32_unless_said(GetParam().sets), "training.activation_kernel=epilogue",
                 plan::OpKind::activated_gemm);
}

TEST_P(FusedKernels, OfBiasGradientsComputeWhatTwoKernelsDo) {
    expect_fused(kGpt, in_fp32_unless_said(GetParam().sets),
                 "training.bias_gradient_kernel=epilogue", plan::OpKind::bias_gradient_gemm);
}

// Products that add residuals: what is rounded to the type of the sum when a branch is written
// stays as it is in fp32 and in fp64, whose products are of these types already.
TEST(Bitwise, ProductsThatAddResidualsTrainTheSameModel) {
    const std::string pp2 = "layout.pipeline_parallel=2", dp2 = "layout.data_parallel=2";
    for (const char* text : {kGpt, kLlama})
        for (const Sets& sets :
             std::initializer_list<Sets>{{},
                                         {"training.precision=fp64"},
                                         {"training.norm_kernel=fused_add"},
                                         {"layout.recompute=full"},
                                         {"layout.activation_stash=bf16"},
                                         {dp2, pp2, "layout.zero_stage=3"},
                                         {pp2, "layout.virtual_pipeline=2", "layout.schedule=zb-v",
                                          "layout.recompute=full"},
                                         {"layout.context_parallel=2"}})
            expect_fused(text, in_fp32_unless_said(sets), "training.residual_kernel=epilogue",
                         plan::OpKind::residual_gemm);
}

// In 16 bits a branch is no longer rounded to its type, by half a unit of it at most, before it is
// added: of each of a model's eight sums the part 2^-9 in bf16, 2^-12 in fp16. What that does to
// the first loss and gradients stays within all of them together, were they of one sign.
TEST(Parity, ProductsThatAddResidualsAreOffByARoundingOfEachBranch) {
    RunOptions one;
    one.steps = 1;
    for (const auto& [precision, unit] : {std::pair{"bf16", 0x1p-9}, {"fp16", 0x1p-12}}) {
        Sets sets = {std::string("training.precision=") + precision};
        const Trained apart = train(scenario(kGpt, sets), one);
        sets.emplace_back("training.residual_kernel=epilogue");
        const Trained together = train(scenario(kGpt, sets), one);
        EXPECT_NE(together.gradients, apart.gradients);
        EXPECT_NEAR(together.losses[0], apart.losses[0], 8 * unit * apart.losses[0]);
        EXPECT_LT(difference(together.gradients, apart.gradients).relative, 8 * unit);
    }
}

std::vector<NamedLayout> fused_kernel_layouts() {
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      dp2 = "data_parallel=2", pp2 = "pipeline_parallel=2",
                      selective = "recompute=selective",
                      norms = R"(recompute_modules=["layernorm","mlp_act"])",
                      drops = "training.dropout=0.1";
    std::vector<NamedLayout> all = {
        layout("alone", {}),
        layout("fp64", {"training.precision=fp64"}),
        layout("bf16", {"training.precision=bf16", drops}),
        layout("fp16", {"training.precision=fp16"}),
        layout("tensor", {tp2}),
        layout("sequence_dropout", {tp2, sp, drops}),
        layout("sequence_parts", {tp2, sp, "training.tensor_overlap_parts=2"}),
        layout("masks", {drops, "training.dropout_masks=stored"}),
        layout("zb_h1", {pp2, "schedule=zb-h1"}),
        layout("zb_v_recomputed", {pp2, "virtual_pipeline=2", "schedule=zb-v", "recompute=full"}),
        layout("zero3", {dp2, "zero_stage=3", pp2}),
        layout("full", {"recompute=full", drops}),
        layout("every_2", {"recompute=every_k", "recompute_every=2", tp2, sp}),
        layout("by_op", {"recompute=selective_op", tp2}),
        layout("norms_again", {selective, norms, drops}),
        layout("serialised", {tp2, "training.overlap_tensor_backward=false"}),
        layout("packed_stash", {"activation_stash=bf16"}),
        layout("ring", {"context_parallel=2"}),
    };
    NamedLayout offloaded = layout("offloaded", {"layout.offload.activations=host"});
    for (const std::string& set : offload_cluster())
        offloaded.sets.push_back(set);
    all.push_back(std::move(offloaded));
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, FusedKernels, testing::ValuesIn(fused_kernel_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// Norms behind branches besides, weights stored as their difference from 1; latents, experts'
// places.
TEST(Bitwise, NormsThatAddTrainOtherFamilies) {
    for (const FamilySets& family : llama_like_families()) {
        if (std::string(family.name) == "olmo2") continue;  // which norms what a branch adds alone
        Sets sets = family.sets;
        sets.emplace_back("training.precision=fp32");
        expect_added_norms(kLlama, sets);
    }
}

TEST(Bitwise, ThreadsOfARankDoNotChangeTheModel) {
    RunOptions three;
    three.cpu.threads = 3;
    expect_same_bits(train_sets({"layout.tensor_parallel=2"}, three),
                     train_sets({"layout.tensor_parallel=2"}));
}

// Memory that changes hands is filled with NaN by whoever touches it first: were an edge missing,
// ops that a delay lets run late would find it, or be found by it.
class Delays : public testing::TestWithParam<NamedLayout> {};

TEST_P(Delays, ChangeNothing) {
    RunOptions calm;
    calm.steps = 3;
    const Trained expected = train_sets(GetParam().sets, calm);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        RunOptions delayed = calm;
        delayed.cpu.poison = true;
        delayed.cpu.delay_seed = seed;
        expect_same_bits(train_sets(GetParam().sets, delayed), expected);
    }
}

const NamedLayout kDelayed[] = {
    layout("pipeline_data", {"pipeline_parallel=2", "data_parallel=2"}),
    layout("sequence_interleaved",
           {"tensor_parallel=2", "sequence_parallel=true", "pipeline_parallel=2",
            "schedule=interleaved", "virtual_pipeline=2"}),
    layout("zero3_recomputed",
           {"data_parallel=2", "zero_stage=3", "recompute=every_k", "recompute_every=2"}),
    layout("zero2_tensor", {"data_parallel=2", "tensor_parallel=2", "zero_stage=2"}),
    layout("zero3_copied", {"data_parallel=2", "zero_stage=3", "training.sharded_buffers=copied"}),
    layout("zero3_bucketed", {"data_parallel=2", "zero_stage=3", "recompute=full",
                              "training.sharded_buffers=bucketed"}),
    layout("zero2_flat", {"data_parallel=2", "zero_stage=2", "training.sharded_buffers=flat"}),
    layout("zb_h1_sequence", {"tensor_parallel=2", "sequence_parallel=true", "pipeline_parallel=2",
                              "schedule=zb-h1"}),
    layout("dualpipe_v", {"pipeline_parallel=2", "virtual_pipeline=2", "schedule=dualpipe-v"}),
    layout("zb_v_zero3", {"pipeline_parallel=2", "virtual_pipeline=2", "schedule=zb-v",
                          "data_parallel=2", "zero_stage=3"}),
    layout("gpipe_tensor", {"tensor_parallel=2", "pipeline_parallel=2", "schedule=gpipe"}),
};
INSTANTIATE_TEST_SUITE_P(All, Delays, testing::ValuesIn(kDelayed),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
