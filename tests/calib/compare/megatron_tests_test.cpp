// Records of Megatron-LM's functional tests: what their configurations leave to Megatron's own
// defaults, what its history says of their golden files, and what arguments say of stages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "calib/compare/record.hpp"
#include "calib/compare/validate.hpp"
#include "tests/calib/compare/library_records.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

json source_of(const std::string& test, const std::string& golden) {
    return "NVIDIA/Megatron-LM@d98e8a64dd tests/functional_tests/test_cases/" + test +
           "/golden_values_" + golden + ".json + model_config.yaml";
}

// Eight experts on two of eight A100, which read as a test's record does.
json record_of(const std::string& test, const std::string& golden) {
    json record = {{"id", "a-test"},
                   {"source", source_of(test, golden)},
                   {"kind", "memory"},
                   {"gpu", "a100-80gb-sxm"},
                   {"gpus", 8},
                   {"gpus_per_node", 8},
                   {"interconnect", "DGX A100"},
                   {"memory_kind", "allocated"},
                   {"memory_rank", "last"},
                   {"measured", {{"peak_memory_bytes", 3'000'000'000}}}};
    record["model"] = {{"name", test},         {"hidden", 512},  {"layers", 12},
                       {"heads", 8},           {"kv_heads", 8},  {"seq_len", 1024},
                       {"gated_mlp", false},   {"experts", 8},   {"topk", 1},
                       {"bias_linear", false}, {"vocab", 50257}, {"untied_embeddings", false}};
    record["layout"] = {{"tp", 2},
                        {"pp", 1},
                        {"dp", 4},
                        {"ep", 2},
                        {"micro_batch", 4},
                        {"global_batch", 32},
                        {"schedule", "none"},
                        {"recompute", "none"},
                        {"sequence_parallel", true},
                        {"zero_stage", 1},
                        {"precision", "bf16"},
                        {"deterministic", true},
                        {"transformer_impl", "transformer_engine"}};
    record["arguments"] = {{"moe-grouped-gemm", true}};
    return record;
}

json scenario_of(const json& record) {
    const Translation found = translate(record, rules(), Fitted::all_sources);
    EXPECT_EQ(found.why, "");
    return found.scenario_json.empty() ? json() : json::parse(found.scenario_json);
}

bool names(const std::vector<std::string>& assumed, const std::string& start) {
    for (const std::string& one : assumed)
        if (one.rfind(start, 0) == 0) return true;
    return false;
}

Validation validated(const json& record) {
    const std::string path = ::testing::TempDir() + "megatron_tests_" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".json";
    std::ofstream(path) << json::array({record}).dump();
    const Validation validation = validate_records({path}, kLibrary);
    std::remove(path.c_str());
    return validation;
}

// megatron/training/arguments.py: 4·h, with gates int(4·h·2/3 / 64)·64. That is a fact of the
// software, so that the default for models that are named GPT does not stand for it.
TEST(MegatronTests, ExpertsAreAsWideAsTheirDefault) {
    json record = record_of("moe/gpt3_mcore_te_tp2_pp1_te_8experts2parallel", "dev_dgx_a100");
    const json plain = scenario_of(record)["model"];
    EXPECT_EQ(plain["ffn_hidden_size"], 4 * 512);
    record["model"]["gated_mlp"] = true;
    const Translation found = translate(record, rules(), Fitted::all_sources);
    ASSERT_EQ(found.why, "");
    const json gated = json::parse(found.scenario_json)["model"];
    EXPECT_EQ(gated["ffn_hidden_size"], static_cast<int>(4 * 512 * 2.0 / 3 / 64) * 64);
    EXPECT_FALSE(names(found.assumed, "hidden units"));
    for (const json& model : {plain, gated}) {
        EXPECT_EQ(model["position_embedding_type"], "learned_absolute");
        EXPECT_EQ(model["normalization"], "LayerNorm");
    }
}

// A rule that knows the model's vocabulary is asked before any default: Llama 4 has 202,048 tokens
// (meta-llama/Llama-4-Maverick-17B-128E, config.json), a model that is named Llama else 32,000.
TEST(MegatronTests, ADefaultGivesWayToWhatARuleKnows) {
    json record = record_of("moe/of_another_name", "dev_dgx_a100");
    record["model"].erase("vocab");
    record["model"]["name"] = "Llama-4 Scout";
    const Translation found = translate(record, rules(), Fitted::all_sources);
    ASSERT_EQ(found.why, "");
    EXPECT_EQ(json::parse(found.scenario_json)["model"]["vocab_size"], 202048);
    EXPECT_FALSE(names(found.assumed, "vocabulary"));
}

// One golden file is the copy of that of a test without instances of the optimizer, whose states
// all four data-parallel ranks share out; elsewhere two do.
TEST(MegatronTests, AGoldenFileThatIsACopyIsReadAsWhatItIsACopyOf) {
    const std::string test =
        "moe/gpt3_mcore_te_tp2_pp1_resume_torch_dist_te_8experts2parallel_multi_dist_optimizer_"
        "instances";
    EXPECT_EQ(scenario_of(record_of(test, "dev_dgx_a100"))["layout"]["zero_group_size"], 2);
    EXPECT_FALSE(
        scenario_of(record_of(test, "lts_dgx_a100"))["layout"].contains("zero_group_size"));
}

// PyTorch's container 24.01 has no grouped linears of Transformer Engine: no workspace for each of
// four streams, 4 MiB on Ampere, and what the activation makes is not kept beside its inputs.
TEST(MegatronTests, OldContainersHaveAnotherGroupedMlp) {
    const std::string test =
        "moe/gpt3_mcore_te_tp2_pp1_te_8experts2parallel_overlap_grad_reduce_param_gather_"
        "groupedGEMM";
    const json later = scenario_of(record_of(test, "dev_dgx_a100"))["training"];
    const json before = scenario_of(record_of(test, "lts_dgx_a100"))["training"];
    EXPECT_FALSE(later.contains("expert_biases"));
    EXPECT_EQ(before["expert_biases"], "kernels");
    EXPECT_NEAR(later["workspace_mb"].get<double>() - before["workspace_mb"].get<double>(),
                4 * 4 * 1048576 / 1e6, 0.1);
}

// Megatron Core's own attention multiplies into a buffer that stays: of four sequences of 1,024
// tokens, with four of eight heads on a rank, in 16 bits.
TEST(MegatronTests, OwnLayersKeepABufferOfScores) {
    json record = record_of("moe/gpt3_mcore_tp2_pp1", "dev_dgx_a100");
    record["arguments"].erase("moe-grouped-gemm");
    const json theirs = scenario_of(record)["training"];
    record["layout"]["transformer_impl"] = "local";
    const json own = scenario_of(record)["training"];
    EXPECT_EQ(own["attention_kernel"], "unfused");
    EXPECT_NEAR(own["workspace_mb"].get<double>() - theirs["workspace_mb"].get<double>(),
                2e-6 * 4 * (8 / 2) * 1024 * 1024, 1e-6);
}

// Workspaces for cuBLAS are 32 MiB each, of the forward and of the autograd thread, where
// CUBLAS_WORKSPACE_CONFIG says :4096:8, and on Blackwell without it from PyTorch's pull request
// 175344 on; else 8 MiB and 128 KiB (aten/src/ATen/cuda/CublasHandlePool.cpp).
TEST(MegatronTests, WorkspacesAreThoseOfTheirTime) {
    constexpr double more = 2 * (32 * 1048576.0 - (2 * 4096 + 16 * 8) * 1024) / 1e6;
    const auto workspace = [](const char* test, const char* gpu) {
        json record = record_of(test, "dev");
        record["arguments"].erase("moe-grouped-gemm");
        record["layout"]["deterministic"] = false;
        record["gpu"] = gpu;
        return scenario_of(record)["training"]["workspace_mb"].get<double>();
    };
    EXPECT_NEAR(workspace("moe/gpt3_mcore_cp2_pp2_ep2_te_4experts2parallel_nondeterministic",
                          "a100-80gb-sxm") -
                    workspace("moe/another", "a100-80gb-sxm"),
                more, 0.1);
    EXPECT_NEAR(
        workspace("gpt/gpt3_mcore_te_tp2_pp2_cp2", "gb200") -
            workspace("gpt/gpt3_mcore_te_tp2_pp2_resume_torch_dist_cp2_nondeterministic", "gb200"),
        more, 0.1);
}

// --pipeline-model-parallel-layout: eight stages on four ranks are two each.
TEST(MegatronTests, StagesAreThoseOfTheLetters) {
    json record = record_of("moe/by_letters", "dev_dgx_a100");
    record["layout"].update({{"pp", 4}, {"dp", 1}, {"ep", 1}, {"schedule", "1f1b"}});
    record["model"].update({{"layers", 14}, {"mtp_layers", 1}});
    json& letters = record["arguments"]["pipeline-model-parallel-layout"];
    letters = "Et*2|(t*2|)*5t|tmL";
    const json layout = scenario_of(record)["layout"];
    EXPECT_EQ(layout["layers_per_stage"], json({2, 2, 2, 2, 2, 2, 1, 1}));
    EXPECT_EQ(layout["virtual_pipeline"], 2);
    EXPECT_EQ(layout["schedule"], "interleaved");
    const auto why = [&](const char* other) {
        letters = other;
        return translate(record, rules(), Fitted::all_sources).why;
    };
    EXPECT_EQ(why("Et*2|(t*2|)*5t|tmLx"), "stages Et*2|(t*2|)*5t|tmLx are not read");
    EXPECT_EQ(why("Et*2|(t*2|)*6tmL"),
              "stages Et*2|(t*2|)*6tmL are 8 of 15 layers and 1 for further tokens: 4, 14 and 1 "
              "are stated");
    EXPECT_EQ(why("Et*2|(t*2|)*5ttL"),
              "stages Et*2|(t*2|)*5ttL are 7 of 14 layers and 0 for further tokens: 4, 14 and 1 "
              "are stated");
}

// Their kernels have no prices, their memory has the same bytes.
TEST(MegatronTests, DeterministicRunsSpeakOfMemoryAlone) {
    json record = record_of("moe/deterministic", "dev_dgx_a100");
    record["kind"] = "run";
    record["measured"]["step_time_s"] = 1;
    const Validation both = validated(record);
    ASSERT_EQ(both.rows.size(), 1U);
    EXPECT_FALSE(both.rows[0].measured_s);
    EXPECT_TRUE(both.rows[0].measured_peak_bytes);
    record["measured"].erase("peak_memory_bytes");
    const Validation time = validated(record);
    ASSERT_EQ(time.skipped.size(), 1U);
    EXPECT_NE(time.skipped[0].why.find("memory alone"), std::string::npos);
    record["layout"]["deterministic"] = false;
    EXPECT_EQ(validated(record).rows.at(0).measured_s, 1);
}

// Mixtral 8x7B, tensor 2, pipeline 4, expert 8, of which no source says how many GPUs it had. What
// stays between steps on a rank: 2 + 4 bytes of each parameter and, shared out, 12 of its states;
// 19.74 GB are told. Of the powers of two that is 64.
TEST(MegatronTests, HowManyGpusIsWhatLeavesSoMuchAllocated) {
    constexpr double h = 4096, ffn = 14336, kv = 8 * 128, vocabulary = 32000, told = 19.74e9;
    constexpr double attention = h * (h + 2 * kv) + h * h, layers = 32.0 / 4;
    constexpr double whole = layers * attention / 2 + vocabulary * h / 2;
    constexpr double experts = layers * 3 * h * ffn * 8 / 8;
    std::int64_t nearest = 0;
    double off = told;
    for (std::int64_t gpus = 32; gpus <= 1024; gpus *= 2) {
        const auto ranks = static_cast<double>(gpus);
        const double stays =
            6 * (whole + experts) + 12 * (whole / (ranks / (2 * 4)) + experts / (ranks / (4 * 8)));
        if (std::fabs(stays - told) >= off) continue;
        off = std::fabs(stays - told);
        nearest = gpus;
    }
    json record = record_of("mixtral/mixtral_8x7b_tp1pp4ep8vpp8_release", "dev_dgx_h100");
    record["kind"] = "run";
    for (const char* key : {"gpus", "gpus_per_node"})
        record.erase(key);
    record["model"].update({{"hidden", h},
                            {"layers", 32},
                            {"heads", 32},
                            {"ffn_hidden", ffn},
                            {"seq_len", 4096},
                            {"gated_mlp", true},
                            {"topk", 2}});
    record["model"].erase("vocab");
    record["layout"].erase("dp");
    record["layout"].update({{"pp", 4},
                             {"ep", 8},
                             {"etp", 1},
                             {"vpp", 8},
                             {"micro_batch", 1},
                             {"global_batch", 256},
                             {"schedule", "interleaved"},
                             {"deterministic", false}});
    record["arguments"]["tokenizer-type"] = "Llama2Tokenizer";
    record["measured"]["step_time_s"] = 3;
    const Translation found = translate(record, rules(), Fitted::all_sources);
    ASSERT_EQ(found.why, "");
    const json scenario = json::parse(found.scenario_json);
    EXPECT_EQ(scenario["model"]["vocab_size"], vocabulary);
    EXPECT_EQ(scenario["layout"]["data_parallel"], nearest / (2 * 4));
    EXPECT_TRUE(names(found.assumed, "GPUs: " + std::to_string(nearest)));
    const Validation validation = validated(record);
    ASSERT_EQ(validation.rows.size(), 1U);
    EXPECT_FALSE(validation.rows[0].measured_s);  // which its GPUs would be judged by
    EXPECT_FALSE(validation.rows[0].baseline_s);
    record["model"]["name"] = "mixtral/of_another_name";
    EXPECT_EQ(translate(record, rules(), Fitted::all_sources).why, "record.gpus is not stated");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
