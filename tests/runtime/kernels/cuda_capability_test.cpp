#include "runtime/kernels/cuda_capability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/backends/registry.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::Diagnostic;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;

std::vector<Diagnostic> reasons_with(const std::vector<std::string>& overrides) {
    const std::string library = ORRERY_SOURCE_DIR "/scenarios";
    const plan::ReadResult read =
        plan::read_scenario(library + "/runs/tiny-gpt.json", overrides, library);
    EXPECT_TRUE(read.scenario.has_value()) << plan::format_text(read.errors);
    const plan::Scenario scenario = read.scenario.value_or(plan::Scenario{});
    return reasons_not_on_cuda(plan::build_plan(scenario), "tiny.json");
}

TEST(CudaCapability, AShippedRunHasAllItsKernels) {
    for (const char* precision : {"fp32", "bf16", "fp16"})
        EXPECT_THAT(reasons_with({std::string("training.precision=") + precision}), ElementsAre());
}

// A head of the whole width: 320.
TEST(CudaCapability, AllReasonsAreToldAtOnce) {
    const std::vector<std::string> wide = {"model.n_head=1", "model.n_embd=320",
                                           "layout.tensor_parallel=1"};
    std::vector<std::string> both = wide;
    both.emplace_back("training.precision=fp64");
    EXPECT_EQ(plan::format_text(reasons_with(both)),
              "error[T101]: CUDA kernels know fp32, bf16 and fp16\n"
              "  --> tiny.json:/training/precision   (= \"fp64\")\n"
              "   = help: --set training.precision=fp32\n"
              "\n"
              "error[T102]: a head is wider than the tiles of CUDA's attention\n"
              "  --> tiny.json:/model\n"
              "   |  head_dim = 320 > 256\n"
              "   = help: --set training.attention_kernel=unfused\n"
              "\n"
              "2 errors; nothing was run.\n");
    std::vector<std::string> unfused = wide;
    unfused.emplace_back("training.attention_kernel=unfused");
    EXPECT_THAT(reasons_with(unfused), ElementsAre());
}

// Of each rank: 80 / 4 = 20.
TEST(CudaCapability, EpiloguesAreOfWidthsInEights) {
    const std::vector<std::string> narrow = {"model.n_inner=80", "layout.tensor_parallel=4",
                                             "training.activation_kernel=epilogue"};
    EXPECT_EQ(plan::format_text(reasons_with(narrow)),
              "error[T109]: cuBLASLt takes GELU along where an MLP's width on a rank is a multiple "
              "of 8\n"
              "  --> tiny.json:/training/activation_kernel   (= \"epilogue\")\n"
              "   |  20 = 8 · 2 + 4\n"
              "   = help: --set training.activation_kernel=own\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_THAT(reasons_with({"training.activation_kernel=epilogue"}), ElementsAre());
}

// Values of a head may have another width than its keys; a tile has to hold either.
TEST(CudaCapability, WideValuesNeedRoomInATile) {
    const std::string library = ORRERY_SOURCE_DIR "/scenarios";
    const auto refused = [&](const char* kernel, std::int64_t values) {
        const plan::ReadResult read =
            plan::read_scenario(library + "/runs/tiny-gpt.json",
                                {std::string("training.attention_kernel=") + kernel}, library);
        plan::Plan plan = plan::build_plan(*read.scenario);
        for (plan::Block& block : plan.blocks)
            for (plan::Op& op : block.ops) {
                if (op.is<plan::Attention>()) op.as<plan::Attention>().value_dim = values;
                if (op.is<plan::BatchedGemm>()) op.as<plan::BatchedGemm>().other_dim = values;
            }
        const auto reasons = reasons_not_on_cuda(plan, "tiny.json");
        return reasons.empty() ? std::string() : reasons.front().code;
    };
    EXPECT_EQ(refused("flash", 4), "");
    EXPECT_EQ(refused("unfused", 4), "");
    EXPECT_EQ(refused("flash", 257), "T102");
    EXPECT_EQ(refused("unfused", 257), "");
}

// Norms of heads, one by one or together; caps and windows; heads of latents, in dense layers.
TEST(CudaCapability, DenseFamiliesHaveAllTheirKernels) {
    for (const char* model :
         {R"("model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16)",
          R"("model_type": "olmo2")",
          R"("model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 16)",
          R"("model_type": "deepseek_v2", "num_key_value_heads": 4, "first_k_dense_replace": 2)"})
        for (const char* kernel : {"flash", "unfused"})
            EXPECT_THAT(reasons_with({std::string("model={") + model +
                                          R"(, "num_hidden_layers": 2, "hidden_size": 64,
                                          "num_attention_heads": 4, "intermediate_size": 96,
                                          "vocab_size": 512})",
                                      std::string("training.attention_kernel=") + kernel}),
                        ElementsAre())
                << model;
}

// Experts of each kind of router, dispatcher and capacity.
TEST(CudaCapability, FamiliesOfExpertsHaveAllTheirKernels) {
    for (
        const char* model :
        {R"("model_type": "mixtral", "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2)",
         R"("model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2,
             "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
             "num_key_value_heads": 4)",
         R"("model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2,
             "head_dim": 16, "num_key_value_heads": 2, "sliding_window": 128)",
         R"("model_type": "llama4_text", "num_local_experts": 4, "num_experts_per_tok": 1,
             "head_dim": 16, "num_key_value_heads": 2, "intermediate_size_mlp": 96,
             "moe_layers": [1], "no_rope_layers": [1, 0], "attention_chunk_size": 128,
             "use_qk_norm": true)"})
        for (const char* set :
             {"layout.expert_dispatcher=deduplicated", "layout.expert_dispatcher=allgather",
              "training.routing.capacity_factor=1"})
            EXPECT_THAT(
                reasons_with({std::string("model={") + model +
                                  R"(, "num_hidden_layers": 2, "hidden_size": 64,
                                          "num_attention_heads": 4, "intermediate_size": 96,
                                          "vocab_size": 512})",
                              "layout.sequence_parallel=true", "layout.expert_parallel=2", set}),
                ElementsAre())
                << model;
}

// Each recipe, of dense layers and of experts; but what no backend has.
TEST(CudaCapability, EightBitsHaveAllTheirKernels) {
    const auto with = [](const std::string& recipe, const std::string& model,
                         const std::string& set) {
        return reasons_with({"training.precision=fp8", "training.fp8_recipe=" + recipe,
                             "training.sequence_length=128", "layout.tensor_parallel=1",
                             "model={" + model +
                                 R"(, "num_hidden_layers": 2, "hidden_size": 128,
                                     "num_attention_heads": 4, "num_key_value_heads": 2,
                                     "head_dim": 32, "intermediate_size": 128,
                                     "vocab_size": 512})",
                             set});
    };
    const std::string dense = R"("model_type": "llama")";
    const std::string experts =
        R"("model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2)";
    for (const char* recipe : {"tensorwise", "rowwise", "blockwise", "mxfp8"})
        for (const std::string& model : {dense, experts})
            EXPECT_THAT(with(recipe, model, "training.fp8_stash=fp8"), ElementsAre()) << recipe;
    EXPECT_THAT(with("delayed", dense, "training.fp8_stash=fp8"), ElementsAre());
    const auto refused = [](const char* message) {
        return ElementsAre(
            AllOf(Field(&Diagnostic::code, "T103"), Field(&Diagnostic::message, message)));
    };
    EXPECT_THAT(
        with("delayed", experts, "training.fp8_stash=fp8"),
        refused("CUDA kernels have no scales of experts that follow from the steps before"));
    EXPECT_THAT(with("blockwise", dense, "training.fp8_param_gather=true"),
                refused("CUDA kernels have no kernels that step parameters of eight bits"));
}

// Of the rank before in the ring, gathered, or in packed rows by heads exchanged for tokens.
TEST(CudaCapability, KeysOfOtherRanksAreAttendedTo) {
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"})
        EXPECT_THAT(reasons_with({"layout.context_parallel=2",
                                  std::string("layout.context_algorithm=") + algorithm}),
                    ElementsAre())
            << algorithm;
}

// What the device does on every driver: copies between tiers of memory, steps that are validated
// later, steps that run on.
TEST(CudaCapability, WhatTheDeviceDoesIsNotRefused) {
    EXPECT_THAT(reasons_with({"layout.data_parallel=2", "layout.zero_stage=1", "layout.staleness=2",
                              "layout.data_parallel_mode=parameter_server"}),
                ElementsAre());
    EXPECT_THAT(reasons_with({"layout.optimizer_post_validation=true", "training.precision=bf16"}),
                ElementsAre());
    EXPECT_THAT(
        reasons_with(
            {R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
             R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1,
                "latency_us": 10})",
             "layout.offload.optimizer=disk", "layout.offload.activations=host",
             "layout.schedule=gpipe"}),
        ElementsAre());
}

// The row asks the plan which states there are: fp32 is what CUDA keeps, said or not.
TEST(CudaCapability, StatesOfFewerBitsAreRefused) {
    const auto refused = [](const std::string& type) {
        const std::string library = ORRERY_SOURCE_DIR "/scenarios";
        const plan::ReadResult read = plan::read_scenario(
            library + "/runs/tiny-gpt.json", {"training.precision=bf16", type}, library);
        EXPECT_TRUE(read.scenario.has_value()) << plan::format_text(read.errors);
        const auto reasons =
            backend_named("cuda").reasons_not(plan::build_plan(*read.scenario), "tiny.json");
        return reasons.empty() ? std::string() : reasons.front().code;
    };
    EXPECT_EQ(refused("training.optimizer.exp_avg_dtype=bf16"), "T108");
    EXPECT_EQ(refused("training.optimizer.main_params_dtype=none"), "T108");
    EXPECT_EQ(refused("training.optimizer.exp_avg_dtype=fp32"), "");
    EXPECT_EQ(refused("training.optimizer.main_params_dtype=fp32"), "");
}

TEST(CudaCapability, AKindWithoutAKernelIsNamed) {
    plan::Plan plan;
    plan.blocks.emplace_back();
    for (const plan::OpKind kind : {plan::OpKind::rope, plan::OpKind::cast, plan::OpKind::rope})
        plan.blocks[0].ops.emplace_back().spec = plan::spec_of(kind);
    const std::vector<Diagnostic> reasons =
        reasons_not_on_cuda(plan, "", [](plan::OpKind kind) { return kind != plan::OpKind::rope; });
    EXPECT_THAT(reasons,
                ElementsAre(AllOf(Field(&Diagnostic::code, "T103"),
                                  Field(&Diagnostic::message, "CUDA has no kernel for rope"))));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
