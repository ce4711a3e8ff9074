// Validation against published runs: the gate on accuracy, and the arithmetic of its summaries.
#include "calib/compare/validate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <vector>

#include "calib/compare/record.hpp"
#include "calib/compare/stack_population.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "tests/calib/compare/library_records.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

nlohmann::json published() {
    return json_of("/published/megatron-2021.json");
}

nlohmann::json first_record() {
    return published().front();
}

// One test, for predicting all of them takes a while.
TEST(PublishedRuns, AreMetWithOneProfile) {
    const Validation validation =
        validate_records({kLibrary + "/published/megatron-2021.json"}, kLibrary);

    EXPECT_EQ(validation.rows.size() + validation.skipped.size(), published().size());
    for (const SkippedRow& row : validation.skipped)
        EXPECT_FALSE(row.why.empty()) << row.id;

    double sum = 0;
    int rows = 0;
    for (const ValidatedRow& row : validation.rows) {
        if (row.id.rfind("sc21-t1", 0) != 0 && row.id.rfind("korth-t5", 0) != 0) continue;
        sum += std::fabs(row.predicted_s / row.measured_s.value() - 1);
        ++rows;
    }
    ASSERT_EQ(rows, 18);  // 10 rows of SC21 table 1, 8 of Korthikanti table 5
    // A published peer that was tuned to the second table has 3.65 % on it (Calculon).
    EXPECT_LE(sum / rows, 0.04);

    const ErrorSummary summary = summarise_time(validation, Rows::trusted);
    EXPECT_EQ(summary.n, 24);
    EXPECT_LE(summary.mean_abs_error_pct * 2, summary.baseline_mean_abs_error_pct);
    EXPECT_GE(summary.interval_coverage, 0.85);
}

TEST(Summary, IsTheArithmeticOfItsRows) {
    Validation validation;
    auto add = [&](double measured, double predicted, double low, double high, double baseline) {
        ValidatedRow row;
        row.measured_s = measured;
        row.predicted_s = predicted;
        row.low_s = low;
        row.high_s = high;
        row.baseline_s = baseline;
        validation.rows.push_back(row);
    };
    add(10, 11, 9, 12, 15);  // +10 %, inside, baseline +50 %
    add(10, 8, 7, 9, 10);    // −20 %, outside, baseline 0 %
    add(10, 10, 9, 11, 7);   // 0 %, inside, baseline −30 %
    const ErrorSummary s = summarise_time(validation, Rows::all);
    EXPECT_EQ(s.n, 3);
    EXPECT_NEAR(s.mean_abs_error_pct, (10.0 + 20 + 0) / 3, 1e-9);
    EXPECT_NEAR(s.median_abs_error_pct, 10, 1e-9);
    EXPECT_NEAR(s.p95_abs_error_pct, 10 + 0.9 * (20 - 10), 1e-9);  // place 0.95 × 2 of 0, 10, 20
    EXPECT_NEAR(s.bias_pct, (10.0 - 20 + 0) / 3, 1e-9);
    EXPECT_NEAR(s.interval_coverage, 2.0 / 3, 1e-9);
    EXPECT_NEAR(s.baseline_mean_abs_error_pct, (50.0 + 0 + 30) / 3, 1e-9);
}

TEST(Baseline, IsModelFlopsOverOneRate) {
    const Validation validation = validate(nlohmann::json::array({first_record()}));
    ASSERT_EQ(validation.rows.size(), 1U);
    // sc21-t1-1.7B: 72·B·s·L·h²·(1 + s/(6h) + V/(12Lh)), Narayanan 2021, over 32 GPUs.
    const double b = 512, s = 2048, l = 24, h = 2304, v = 51200;
    const double flops = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    std::ifstream file(kLibrary + "/validation/baseline.json");
    const double rate =
        nlohmann::json::parse(file)["rates"]["a100-80gb-sxm"]["fp16"]["rate_tflops"];
    EXPECT_NEAR(*validation.rows[0].baseline_s, flops / (32 * rate * 1e12), 1e-9);
}

// DeepSeek-V3's stages and latents, by a record that states neither its stages nor its software.
nlohmann::json deepseek_v3() {
    return nlohmann::json::parse(R"({
        "id": "v3", "source": "NVIDIA-NeMo/Megatron-Bridge 25.11", "kind": "run",
        "gpu": "h100-sxm", "gpus": 1024, "gpus_per_node": 8,
        "model": {"name": "DeepSeek-V3", "hidden": 7168, "layers": 61, "heads": 128,
                  "kv_heads": 128, "ffn_hidden": 18432, "moe_ffn_hidden": 2048, "vocab": 129280,
                  "gated_mlp": true, "experts": 256, "topk": 8, "shared_experts": 1,
                  "first_dense_layers": 3, "seq_len": 4096,
                  "mla": {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                          "qk_rope_head_dim": 64, "v_head_dim": 128}},
        "layout": {"tp": 2, "pp": 16, "dp": 32, "ep": 64, "etp": 1, "micro_batch": 1,
                   "global_batch": 8192, "precision": "bf16", "schedule": "1f1b",
                   "zero_stage": 1, "distributed_optimizer": true},
        "measured": {"step_time_s": 50}})");
}

TEST(Records, OfDeepSeekHaveLatentsAndALastStageWithTheRest) {
    const nlohmann::json record = deepseek_v3();
    const Translation found = translate(record, rules(), Fitted::all_sources);
    ASSERT_EQ(found.why, "");
    const auto scenario = nlohmann::json::parse(found.scenario_json);
    std::vector<int> stages(16, 4);
    stages.back() = 1;
    EXPECT_EQ(scenario["layout"]["layers_per_stage"], stages);
    const plan::ReadResult read =
        plan::read_scenario_text(scenario.dump(), "v3", kLibrary, {}, kLibrary);
    ASSERT_TRUE(read.scenario.has_value());
    EXPECT_EQ(read.scenario->model.attention().latents.q_rank, 1536);
    EXPECT_EQ(read.scenario->model.attention().head_dim, 192);
    // NVIDIA's recipes of it predict a further token unless they say otherwise.
    constexpr std::int64_t kOwn = 671'026'404'352, kFurther = 11'610'067'968;
    EXPECT_EQ(plan::conserved_of(*read.scenario).parameters, kOwn + kFurther);
    nlohmann::json without = record;
    without["id"] = "v3-gb200-womtp-256";
    const plan::ReadResult alone =
        plan::read_scenario_text(translate(without, rules(), Fitted::all_sources).scenario_json,
                                 "v3", kLibrary, {}, kLibrary);
    ASSERT_TRUE(alone.scenario.has_value());
    EXPECT_EQ(plan::conserved_of(*alone.scenario).parameters, kOwn);
}

// Megatron's own arguments say the same: a list as Python writes it, widths of the latents.
TEST(Records, OfArgumentsAreWhatFactsOfTheModelAre) {
    const nlohmann::json stated = deepseek_v3();
    nlohmann::json argued = stated;
    argued["model"].erase("first_dense_layers");
    argued["model"]["moe_layer_freq"] = "([0]*3+[1]*58)";
    argued["model"]["mla"] = true;
    argued["arguments"] = {{"q-lora-rank", 1536},
                           {"kv-lora-rank", 512},
                           {"qk-head-dim", 128},
                           {"qk-pos-emb-head-dim", 64},
                           {"v-head-dim", 128}};
    const auto scenario_of = [](const nlohmann::json& record) {
        return nlohmann::json::parse(translate(record, rules(), Fitted::all_sources).scenario_json);
    };
    EXPECT_EQ(scenario_of(argued), scenario_of(stated));
    argued["model"]["moe_layer_freq"] = "([0]*3+[1]*n)";
    EXPECT_EQ(translate(argued, rules(), Fitted::all_sources).why,
              "layers with experts by ([0]*3+[1]*n) are not read");
    argued = stated;
    argued["model"]["mla"] = true;
    EXPECT_EQ(translate(argued, rules(), Fitted::all_sources).why,
              "latent attention whose widths are not stated");
}

// Adapters by the devices' datasheets, where the record does not state them.
TEST(Records, OfBlackwellUltraHaveAdaptersOf800Gb) {
    for (const auto& [gpu, interconnect, per_node, gbps] :
         {std::tuple{"b200", "NVLink5, 8-GPU NVSwitch", 8, 400},
          std::tuple{"b300", "NVLink5, 8-GPU NVSwitch", 8, 800},
          std::tuple{"gb200", "NVL72 NVLink5", 4, 400},
          std::tuple{"gb300", "NVL72 NVLink5", 4, 800}}) {
        nlohmann::json record = deepseek_v3();
        record["gpu"] = gpu;
        record["gpus_per_node"] = per_node;
        record["interconnect"] = interconnect;
        const auto scenario =
            nlohmann::json::parse(translate(record, rules(), Fitted::all_sources).scenario_json);
        EXPECT_EQ(scenario["cluster"]["inter_node"]["bandwidth_Gbps"], gbps) << gpu;
    }
}

// Sixteen virtual stages of two ranks hold four layers each; of thirty-two the last holds none.
TEST(Records, OfUnevenStagesTheEndsHaveLess) {
    for (const auto& [pipeline, chunks, first, last] :
         {std::tuple{2, 8, 4, 1}, std::tuple{8, 4, 1, 0}}) {
        nlohmann::json record = deepseek_v3();
        record["gpus"] = 32 * 2 * pipeline;
        record["layout"]["pp"] = pipeline;
        record["layout"]["vpp"] = chunks;
        record["layout"]["schedule"] = "interleaved";
        const auto scenario =
            nlohmann::json::parse(translate(record, rules(), Fitted::all_sources).scenario_json);
        const auto stages = scenario["layout"]["layers_per_stage"].get<std::vector<int>>();
        EXPECT_EQ(stages.front(), first);
        EXPECT_EQ(stages.back(), last);
        EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), 0), 61);
    }
}

TEST(Records, WhatIsNotModelledIsSkippedByName) {
    const struct {
        const char* pointer;
        nlohmann::json value;
        const char* why;
    } cases[] = {
        {"/layout/cp", 2, "tp × pp × cp × dp = 1 × 1 × 2 × 32 = 64 but the run had 32 GPUs"},
        {"/layout/recompute", "most of it", "recompute most of it is not modelled"},
        {"/layout/schedule", "round robin", "schedule round robin of a pipeline"},
        {"/layout/precision", "fp6", "precision fp6 is not modelled"},
        {"/layout/async_checkpoint", true, "layout.async_checkpoint = true is not modelled"},
        {"/layout/dp", 31, "31 but the run had 32 GPUs"},
        {"/model/experts", 8, "model.topk is not stated"},
        {"/model/name", "gpt3_modelopt_distill_resume", "distillation"},
        {"/arguments/tp-2d", true, "tensor parallelism over two axes"},
        {"/gpu", "gaudi1", "no profile of gaudi1"},
        {"/gpu", "abacus", "no profile for gpu abacus"},
        {"/kind", "layer", "kind layer"},
    };
    for (const auto& c : cases) {
        nlohmann::json record = first_record();
        nlohmann::json::json_pointer pointer(c.pointer);
        record[pointer] = c.value;
        if (std::string(c.pointer) == "/layout/schedule") {
            record["layout"]["pp"] = 2;
            record["layout"]["dp"] = 16;
        }
        const Validation validation = validate(nlohmann::json::array({record}));
        ASSERT_EQ(validation.skipped.size(), 1U) << c.pointer;
        EXPECT_NE(validation.skipped[0].why.find(c.why), std::string::npos)
            << c.pointer << ": " << validation.skipped[0].why;
    }
}

// A fact that nothing knows is not physics: the row is predicted with a default that it names, in a
// wider interval, and is in a summary of its own.
TEST(Records, AnUnknownWordIsANamedDefault) {
    const struct {
        const char* pointer;
        const char* value;
        const char* what;
    } cases[] = {
        {"/interconnect", "carrier pigeons",
         "interconnect \"carrier pigeons\": not stated; NVIDIA"},
        {"/source", "a page", "software: megatron"},
        {"/layout/precision", "not stated", "precision: bf16"},
        {"/layout/recompute", "not stated",
         "recomputation: full, without which the run does not fit"},
    };
    nlohmann::json plain = first_record();
    const Validation stated = validate(nlohmann::json::array({plain}));
    ASSERT_EQ(stated.rows.size(), 1U);
    EXPECT_TRUE(stated.rows[0].assumed.empty());
    for (const auto& c : cases) {
        nlohmann::json record = plain;
        record[nlohmann::json::json_pointer(c.pointer)] = c.value;
        record["layout"].erase("distributed_optimizer");  // an option that only one software has
        const Validation validation = validate(nlohmann::json::array({record}));
        ASSERT_EQ(validation.rows.size(), 1U) << c.pointer << ": " << validation.skipped[0].why;
        const ValidatedRow& row = validation.rows[0];
        ASSERT_EQ(row.assumed.size(), 1U) << c.pointer;
        EXPECT_EQ(row.assumed[0].rfind(c.what, 0), 0U) << row.assumed[0];
        EXPECT_EQ(summarise_time(validation, Rows::all).n, 1);
        EXPECT_EQ(summarise_time(validation, Rows::trusted).n, 0);
        EXPECT_EQ(summarise_time(validation, Rows::assumed).n, 1);
        EXPECT_NE(validation_text(validation).find("by default, in 1 rows"), std::string::npos);
        const auto object = nlohmann::json::parse(validation_json(validation));
        EXPECT_EQ(object["rows"][0]["assumed"][0], row.assumed[0]);
        EXPECT_EQ(object["summary_assumed"]["step_time"]["n"], 1);
    }
}

// Switches and free text that no rule knows are named and widen; degrees and other runs are
// refused.
TEST(Records, AnUnknownSwitchOfTheSoftwareIsANamedDefault) {
    const nlohmann::json plain = first_record();
    const auto validated = [&](const char* key, const nlohmann::json& value) {
        nlohmann::json record = plain;
        record["layout"][key] = value;
        return validate(nlohmann::json::array({record}));
    };
    const ValidatedRow stated = validate(nlohmann::json::array({plain})).rows.at(0);
    const std::pair<const char*, nlohmann::json> taken[] = {
        {"flags", "use_new_loader=1; pinned cores"},
        {"flags", {"--use-cpu-initialization", "tf32 off"}},
        {"fancy_kernels", true},
        {"data_loader", "mosaic"}};
    for (const auto& [key, value] : taken) {
        const Validation validation = validated(key, value);
        ASSERT_EQ(validation.rows.size(), 1U) << key << ": " << validation.skipped[0].why;
        const ValidatedRow& row = validation.rows[0];
        ASSERT_EQ(row.assumed.size(), 1U) << key;
        EXPECT_EQ(row.assumed[0].rfind(key, 0), 0U) << row.assumed[0];
        EXPECT_NE(row.assumed[0].find("without effect"), std::string::npos);
        EXPECT_EQ(row.predicted_s, stated.predicted_s);
        EXPECT_LT(row.low_s, stated.low_s);
        EXPECT_GT(row.high_s, stated.high_s);
        EXPECT_EQ(summarise_time(validation, Rows::trusted).n, 0);
    }
    // What the rules know is no default, in a text with what they do not know either.
    EXPECT_TRUE(validated("flags", "--overlap-grad-reduce; foo=1").rows.at(0).assumed.empty());
    const std::pair<const char*, nlohmann::json> refused[] = {{"flags", "expert_shards=4"},
                                                              {"flags", "cpu-offload on"},
                                                              {"flags", "8"},
                                                              {"unknown_parallel_size", "four"},
                                                              {"spp", 4},
                                                              {"weights_int8", true}};
    for (const auto& [key, value] : refused) {
        const Validation validation = validated(key, value);
        ASSERT_EQ(validation.skipped.size(), 1U) << key << value;
        EXPECT_NE(validation.skipped[0].why.find(key), std::string::npos);
    }
}

TEST(Records, AWholeNumberMayBeWrittenWithAPoint) {
    nlohmann::json record = first_record();
    record["layout"]["micro_batch"] = record["layout"]["micro_batch"].get<double>();
    EXPECT_EQ(validate(nlohmann::json::array({record})).rows.size(), 1U);
}

// The interval of a default holds that of the same run whose fact is stated to be the default's.
TEST(Records, ADefaultHasAWiderInterval) {
    nlohmann::json record = first_record();
    const ValidatedRow stated = validate(nlohmann::json::array({record})).rows.at(0);
    record["interconnect"] = "carrier pigeons";  // the default is this record's own wiring
    const ValidatedRow assumed = validate(nlohmann::json::array({record})).rows.at(0);
    EXPECT_EQ(assumed.predicted_s, stated.predicted_s);
    EXPECT_LT(assumed.low_s, stated.low_s);
    EXPECT_GT(assumed.high_s, stated.high_s);
}

// Of several nodes; within one there is none to know.
TEST(Records, AnInterconnectThatIsNotSaidIsANamedDefault) {
    nlohmann::json record = first_record();
    const ValidatedRow stated = validate(nlohmann::json::array({record})).rows.at(0);
    for (const nlohmann::json& unsaid : {nlohmann::json(), nlohmann::json("not stated")}) {
        record["interconnect"] = unsaid;
        const ValidatedRow row = validate(nlohmann::json::array({record})).rows.at(0);
        ASSERT_EQ(row.assumed.size(), 1U);
        EXPECT_EQ(row.assumed[0].rfind("interconnect: not stated; NVIDIA DGX A100", 0), 0U);
        EXPECT_EQ(row.predicted_s, stated.predicted_s);
        EXPECT_GT(row.high_s, stated.high_s);
    }
    record["gpus"] = 8;
    record["layout"]["dp"] = 8;
    EXPECT_TRUE(validate(nlohmann::json::array({record})).rows.at(0).assumed.empty());
}

nlohmann::json scenario_of_record(const nlohmann::json& record,
                                  const std::vector<std::string>& assumed = {}) {
    const Translation found = translate(record, rules(), Fitted::all_sources);
    EXPECT_EQ(found.why, "");
    EXPECT_EQ(found.assumed, assumed);
    return nlohmann::json::parse(found.scenario_json);
}

// 512 sequences of 32 ranks.
TEST(Records, MicroBatchesFollowFromTheirNumber) {
    nlohmann::json record = first_record();
    record["layout"].erase("micro_batch");
    record["layout"].erase("grad_accum");
    for (const char* count : {"grad_accum", "num_microbatches"}) {
        nlohmann::json counted = record;
        counted["layout"][count] = 4;
        EXPECT_EQ(scenario_of_record(counted)["layout"]["micro_batch_size"], 512 / 32 / 4);
        counted["layout"][count] = 3;
        EXPECT_EQ(translate(counted, rules(), Fitted::all_sources).why,
                  "a batch of 512 does not part into 3 micro-batches of 32 ranks");
    }
    EXPECT_EQ(
        scenario_of_record(
            record,
            {"micro-batch: the batch of a rank at once, without a pipeline"})["layout"]
                                                                             ["micro_batch_size"],
        512 / 32);
    record["layout"].update(nlohmann::json({{"pp", 2}, {"dp", 16}, {"schedule", "not stated"}}));
    EXPECT_EQ(scenario_of_record(
                  record, {"schedule: 1f1b",
                           "micro-batch: of one sequence, as in most pipelines of large models"})
                  ["layout"]["micro_batch_size"],
              1);
}

TEST(Records, OfNodesThatNobodyDescribesEightGpusAreTaken) {
    nlohmann::json record = first_record();
    record.erase("gpus_per_node");
    EXPECT_EQ(scenario_of_record(record, {"nodes: of eight GPUs"})["cluster"]["devices_per_node"],
              8);
    record["gpus"] = record["layout"]["dp"] = 4;
    EXPECT_EQ(scenario_of_record(record)["cluster"]["devices_per_node"], 4);
}

// 22 layers, an embedding and a head are three for each of eight stages; 25 layers are one more
// for the first.
TEST(Records, OfStagesThatNobodySaysLayersArePartedEvenly) {
    nlohmann::json record = first_record();
    record["layout"].update(nlohmann::json({{"pp", 8}, {"dp", 4}, {"schedule", "1f1b"}}));
    for (const auto& [layers, stages] : {std::pair{22, std::vector{2, 3, 3, 3, 3, 3, 3, 2}},
                                         std::pair{25, std::vector{4, 3, 3, 3, 3, 3, 3, 3}}}) {
        record["model"]["layers"] = layers;
        EXPECT_EQ(
            scenario_of_record(
                record, {"stages: as equal as whole layers go, embedding and "
                         "head as one each where that is even"})["layout"]["layers_per_stage"],
            stages);
    }
    record["model"]["layers"] = 24;
    EXPECT_FALSE(scenario_of_record(record)["layout"].contains("layers_per_stage"));
}

// As all else, unless a stage has too few ranks for that; whole where they are many.
TEST(Records, OfExpertsThatNobodySaysHowTheyAreCut) {
    const std::string many = "experts: whole on a rank, as recipes have them where they are many";
    for (const auto& [experts, parallel, cut, assumed] :
         {std::tuple{16, 8, 4, std::vector<std::string>{}},
          std::tuple{16, 16, 1, std::vector<std::string>{}},
          std::tuple{32, 8, 1, std::vector<std::string>{many}}}) {
        nlohmann::json record = first_record();
        record["model"].update(nlohmann::json({{"experts", experts}, {"topk", 2}}));
        record["layout"].update(nlohmann::json({{"tp", 4}, {"dp", 8}, {"ep", parallel}}));
        EXPECT_EQ(scenario_of_record(record, assumed)["layout"]["expert_tensor_parallel"], cut)
            << experts << ' ' << parallel;
    }
}

TEST(Records, TheCapacityOfExpertsIsTaken) {
    nlohmann::json record = deepseek_v3();
    record["interconnect"] = "8x NDR 400 Gb/s InfiniBand";
    record["layout"].update(
        nlohmann::json({{"moe_capacity_factor", 1.25}, {"moe_grouped_gemm", true}}));
    const nlohmann::json drops = {{"capacity_factor", 1.25}, {"capacity_of", "rank"}};
    EXPECT_EQ(scenario_of_record(record)["training"]["routing"], drops);
    record["layout"]["moe_pad_to_capacity"] = true;
    EXPECT_EQ(scenario_of_record(record)["training"]["routing"]["pad_to_capacity"], true);
}

// The vocabulary of published records: each value is translated or is skipped with a reason of its
// own, and none is passed over.
struct Spelling {
    const char* pointer;
    std::vector<nlohmann::json> translated;
    std::vector<nlohmann::json> skipped;
    const char* with = "{}";  // facts that go with it
};

const Spelling kSpellings[] = {
    {"/gpu",
     {"a100-sxm",      "a100-40gb-sxm", "a100-80gb-sxm", "a800-80gb",
      "v100-16gb-sxm", "v100-32gb-sxm", "h100-sxm",      "h100-96gb-500w",
      "h800",          "h200",          "b200",          "gb200",
      "l40s",          "rtx-4090",      "mi300x",        "mi325x",
      "mi355x",        "gh200-96gb",    "b300",          "gb300",
      "rtx-5060-ti",   "rtx-pro-6000",  "mi350x",        "tpu-v4",
      "tpu-v5e",       "tpu-v5p",       "tpu-v6e",       "tpu-v7x",
      "a100-64gb-sxm", "h100-64gb-sxm", "mi250-gcd",     "ascend-910b-64gb",
      "gaudi2",        "gaudi3",        "max1550-tile"},
     {"gaudi1", "abacus"}},
    {"/layout/schedule",
     {"1f1b", "interleaved", "zb-1p", "zb-2p", "v-half", "not_stated"},
     {"dualpipe"},
     R"({"layout": {"pp": 2, "dp": 4, "vpp": 2}})"},
    {"/layout/schedule", {"none"}, {}},
    {"/layout/recompute",
     {"none", "full", "selective", "selective_ops", "selective_layers", "not_stated", "policy",
      "modules"},
     {"most of it"}},
    {"/layout/precision", {"fp16", "bf16", "fp8", "mxfp8", "not_stated"}, {"nvfp4", "fp6"}},
    {"/layout/task", {"pretrain", "lora", "sft"}, {}},
    {"/layout/vocabulary_variant",
     {"baseline", "vocab-1", "vocab-2", "interlaced"},
     {},
     R"({"layout": {"pp": 2, "dp": 4, "schedule": "1f1b"}})"},
};

TEST(Records, EveryWordOfTheVocabularyIsKnown) {
    for (const Spelling& spelling : kSpellings)
        for (const bool translated : {true, false})
            for (const nlohmann::json& word : translated ? spelling.translated : spelling.skipped) {
                nlohmann::json record = first_record();
                record["interconnect"] = nullptr;  // by the GPU
                record["gpus"] = 8;
                record["layout"]["dp"] = 8;
                record.merge_patch(nlohmann::json::parse(spelling.with));
                record[nlohmann::json::json_pointer(spelling.pointer)] = word;
                const Translation found = translate(record, rules(), Fitted::all_sources);
                EXPECT_EQ(found.scenario_json.empty(), !translated)
                    << spelling.pointer << " = " << word << ": " << found.why;
                EXPECT_EQ(found.why.empty(), translated) << spelling.pointer << " = " << word;
            }
}

TEST(Records, AFaultyFileIsNamed) {
    EXPECT_THROW(validate_records({"/no/such/file.json"}, kLibrary), RecordsError);
    EXPECT_THROW(validate(nlohmann::json::object()), RecordsError);
}

// One run, its peak stated in three ways: what the allocator handed out, what it reserved, and what
// the driver showed.
TEST(Peaks, AreMetInTheRecordsOwnTerms) {
    nlohmann::json records = nlohmann::json::array();
    for (const char* kind : {"allocated", "reserved", "device_used", "not_stated"}) {
        nlohmann::json record = first_record();
        record["memory_kind"] = kind;
        record["measured"]["peak_memory_gb"] = 20;
        records.push_back(record);
    }
    const Validation validation = validate(records);
    ASSERT_EQ(validation.rows.size(), 4U);
    const double allocated = validation.rows[0].predicted_peak_bytes.value();
    const double reserved = validation.rows[1].predicted_peak_bytes.value();
    const double device = validation.rows[2].predicted_peak_bytes.value();
    EXPECT_FALSE(validation.rows[3].predicted_peak_bytes);
    std::ifstream file(kLibrary + "/frameworks/megatron-2021.json");
    const nlohmann::json flags = nlohmann::json::parse(file)["flags"];
    const double share = flags["fragmentation"]["value"];
    EXPECT_NEAR(reserved, allocated * (1 + share), 1);
    // Communicators of the data-parallel ranks and of all ranks.
    EXPECT_NEAR(device - reserved,
                1e6 * (flags["context_mb"]["value"].get<double>() +
                       2 * flags["communicator_mb"]["value"].get<double>()),
                1);
    for (const MemoryOutcome& outcome : validation.outcomes) {
        EXPECT_FALSE(outcome.ran_out);
        EXPECT_EQ(outcome.verdict, "fits");
        EXPECT_GT(outcome.fit_probability, 0.9);
        EXPECT_NEAR(static_cast<double>(outcome.peak_bytes), device, 1);
    }
}

// The tables of Vocabulary Parallelism count in 2^30 bytes; other sources in 1e9.
TEST(Peaks, AreInTheGigabytesOfTheirSource) {
    nlohmann::json record = first_record();
    record["memory_kind"] = "allocated";
    record["memory_semantics"] = "as printed in the paper, GB (unit base not stated)";
    record["measured"]["peak_memory_gb"] = 20;
    nlohmann::json other = record;
    other["source"] = "Vocabulary Parallelism (arXiv:2411.05288) Table 5";
    const Validation validation = validate(nlohmann::json::array({record, other}));
    ASSERT_EQ(validation.rows.size(), 2U);
    EXPECT_EQ(*validation.rows[0].measured_peak_bytes, 20e9);
    EXPECT_EQ(*validation.rows[1].measured_peak_bytes, 20 * 1073741824.0);
}

// What the population without the source says of its stack, as overrides.
std::vector<std::string> overrides_without(const std::string& source) {
    std::ifstream file(kLibrary + "/priors/stacks.json");
    std::ifstream preset(kLibrary + "/frameworks/megatron-2021.json");
    const StackPopulation population(nlohmann::json::parse(file));
    nlohmann::json training = nlohmann::json::object();
    EXPECT_TRUE(leave_out_stack(population, nlohmann::json::parse(preset), "a100-80gb-sxm", source,
                                training));
    std::vector<std::string> overrides;
    for (const auto& [key, value] : training.items())
        overrides.push_back("training." + key + "=" + value.dump());
    return overrides;
}

// The first row of SC21 has one GPU per model: its stack is the population's, and beside that
// products at another share of a burst than 0.95 take up to 5 % less, all else as long.
TEST(LeftOut, IsWhatWasFittedToTheSource) {
    const std::string path = ::testing::TempDir() + "left_out_records.json";
    nlohmann::json page = first_record();  // nothing was fitted to runs of NVIDIA's pages
    page["source"] = "NVIDIA/Megatron-LM images/tables.tex";
    std::ofstream(path) << nlohmann::json::array({first_record(), page}).dump();
    const Validation all = validate_records({path}, kLibrary);
    const Validation others = validate_records({path}, kLibrary, {}, Fitted::other_sources);
    const Validation population =
        validate_records({path}, kLibrary, overrides_without(first_record().at("source")));
    std::remove(path.c_str());
    ASSERT_EQ(others.rows.size(), 2U);
    EXPECT_LT(others.rows[0].predicted_s, population.rows[0].predicted_s);
    EXPECT_GT(others.rows[0].predicted_s, 0.95 * population.rows[0].predicted_s);
    EXPECT_EQ(others.rows[1].predicted_s, all.rows[1].predicted_s);
    EXPECT_TRUE(all.rows[0].left_out.empty());
    EXPECT_EQ(others.rows[0].left_out.size(), 2U);
    EXPECT_GT(others.rows[0].high_s - others.rows[0].predicted_s,
              all.rows[0].high_s - all.rows[0].predicted_s);
    EXPECT_TRUE(others.rows[1].left_out.empty());

    const double first = std::fabs(others.rows[0].error_pct());
    const double second = std::fabs(others.rows[1].error_pct());
    EXPECT_NEAR(mean_over_sources(others), (first + second) / 2, 1e-9);
    const std::string page_text = left_out_markdown(all, others);
    EXPECT_NE(page_text.find(others.rows[0].left_out[0]), std::string::npos);
    EXPECT_NE(page_text.find("nothing was fitted to it"), std::string::npos);
}

// Each place of a profile that a rule sets aside is one that the profiles have.
TEST(LeftOut, KnowsThePlacesOfProfiles) {
    std::ifstream file(kLibrary + "/profiles/h100-sxm.json");
    const nlohmann::json profile = nlohmann::json::parse(file);
    for (const nlohmann::json& rule : rules().at("left_out")) {
        EXPECT_FALSE(rule.at("what").get<std::string>().empty());
        if (!rule.contains("profile")) continue;
        for (const auto& [place, value] : rule.at("profile").items())
            EXPECT_TRUE(profile.contains(nlohmann::json::json_pointer(place))) << place;
    }
}

TEST(OutOfMemory, IsCountedByVerdict) {
    nlohmann::json small = first_record();
    nlohmann::json large = small;
    small["kind"] = "oom";  // 1.7B on 32 cards of 80 GB
    large["kind"] = "oom";
    large["model"]["layers"] = 24 * 16;
    const nlohmann::json object = nlohmann::json::parse(
        validation_json(validate(nlohmann::json::array({first_record(), small, large}))));
    const nlohmann::json& summary = object["summary"]["out_of_memory"];
    EXPECT_EQ(summary["true_positive"], 1);
    EXPECT_EQ(summary["false_negative"], 1);
    EXPECT_EQ(summary["true_negative"], 1);
    EXPECT_EQ(summary["verdicts"]["fits"]["ran"], 1);
    EXPECT_EQ(summary["verdicts"]["fits"]["ran_out"], 1);
    EXPECT_EQ(summary["verdicts"]["exceeds"]["ran_out"], 1);
    ASSERT_EQ(object["memory_outcomes"].size(), 3U);
    EXPECT_EQ(object["memory_outcomes"][2]["verdict"], "exceeds");
    EXPECT_LT(object["memory_outcomes"][2]["fit_probability"], 0.5);
}

TEST(Json, HasTheContractsKeys) {
    const nlohmann::json object =
        nlohmann::json::parse(validation_json(validate(nlohmann::json::array({first_record()}))));
    for (const char* key : {"id", "measured_s", "predicted_s", "error_pct", "baseline_s"})
        EXPECT_TRUE(object["rows"][0].contains(key)) << key;
    for (const char* key : {"n", "mean_abs_error_pct", "median_abs_error_pct", "p95_abs_error_pct",
                            "bias_pct", "interval_coverage", "baseline_mean_abs_error_pct"})
        for (const char* part : {"step_time", "memory"})
            EXPECT_TRUE(object["summary"][part].contains(key)) << part << " " << key;
    for (const char* key : {"true_positive", "false_positive", "true_negative", "false_negative"})
        EXPECT_TRUE(object["summary"]["out_of_memory"].contains(key)) << key;
    EXPECT_TRUE(object["skipped"].is_array());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
