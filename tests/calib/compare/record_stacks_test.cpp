// What a record says of its software by a name, a year or a device, and what it leaves open.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "calib/compare/record.hpp"
#include "calib/compare/validate.hpp"
#include "tests/calib/compare/library_records.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

json small_run() {
    return json::parse(R"({
        "id": "small", "source": "a page", "kind": "run", "gpu": "a100-80gb-sxm", "gpus": 8,
        "gpus_per_node": 8, "interconnect": "NVLink",
        "model": {"hidden": 1024, "layers": 8, "heads": 16, "kv_heads": 16, "ffn_hidden": 4096,
                  "gated_mlp": true, "seq_len": 1024, "vocab": 32000},
        "layout": {"tp": 1, "pp": 1, "dp": 8, "micro_batch": 4, "global_batch": 32,
                   "schedule": "none", "recompute": "none", "zero_stage": 0, "precision": "bf16"},
        "measured": {"step_time_s": 1}})");
}

json scenario_of(const json& record) {
    const Translation found = translate(record, rules(), Fitted::all_sources);
    EXPECT_EQ(found.why, "");
    return json::parse(found.scenario_json);
}

TEST(Stacks, AreOfTheirWordsAndYears) {
    const struct {
        const char* words;
        const char* framework;
    } cases[] = {
        {"Megatron-LM (2021)", "megatron-2021"},
        {"Megatron-LM v2.4", "megatron-2021"},
        {"Megatron-LM", "megatron"},
        {"Hugging Face Trainer", "fsdp"},
        {"PyTorch DDP", "fsdp"},
        {"nanotron", "fsdp"},
        {"LLM Foundry (PyTorch FSDP)", "fsdp-2023"},
        {"nanoGPT (PyTorch DDP)", "torchtitan"},
        {"PyTorch + TransformerEngine", "megatron"},
        {"Hugging Face Trainer + DeepSpeed", "deepspeed"},
        {"DeepSpeed 0.11.1", "deepspeed"},
        {"Megatron-DeepSpeed", "megatron-deepspeed"},
        {"torchprime (PyTorch/XLA SPMD)", "maxtext"},
        {"somebody's own", "fsdp"},
    };
    for (const auto& c : cases) {
        json record = small_run();
        record["layout"]["framework"] = c.words;
        EXPECT_EQ(scenario_of(record)["training"]["framework"], c.framework) << c.words;
    }
    json compiled = small_run();
    compiled["layout"]["framework"] = "PyTorch DDP";
    compiled["layout"]["torch_compile"] = true;
    EXPECT_EQ(scenario_of(compiled)["training"]["framework"], "torchtitan");
    // A name that no rule knows is a default, and others are within the interval.
    json unknown = small_run();
    unknown["layout"]["framework"] = "somebody's own";
    const Translation found = translate(unknown, rules(), Fitted::all_sources);
    EXPECT_EQ(found.otherwise.size(), 2u);
    unknown["layout"]["tp"] = 2;
    unknown["layout"]["dp"] = 4;
    EXPECT_EQ(scenario_of(unknown)["training"]["framework"], "megatron");
}

// Core 0.7 was the first with a fused loss, which its forks leave off unless told to.
TEST(Stacks, OfMegatronHaveALossOfSingleOperationsBeforeCoreFusedIt) {
    const struct {
        const char* words;
        bool single_operations;
    } cases[] = {
        {"Megatron-LM (2021)", true}, {"Megatron-LM core_v0.6.0", true},
        {"Megatron-DeepSpeed", true}, {"MindSpeed-LLM", true},
        {"Megatron-LM", false},       {"Hugging Face Trainer", false},
    };
    for (const auto& c : cases) {
        json record = small_run();
        record["layout"]["framework"] = c.words;
        const json training = scenario_of(record)["training"];
        EXPECT_EQ(training.value("loss_kernel", "fused"),
                  c.single_operations ? "composed" : "fused")
            << c.words;
    }
}

// DeepSpeed's optimizer of bf16 sums in fp32 where no ZeRO takes its place.
TEST(Stacks, OfDeepSpeedReduceBf16InFp32WithoutZero) {
    json record = small_run();
    record["layout"]["framework"] = "Megatron-DeepSpeed";
    EXPECT_EQ(scenario_of(record)["training"]["gradient_dtype"], "fp32");
    record["layout"]["zero_stage"] = 1;
    EXPECT_FALSE(scenario_of(record)["training"].contains("gradient_dtype"));
    record["layout"]["zero_stage"] = 0;
    record["layout"]["precision"] = "fp16";
    EXPECT_FALSE(scenario_of(record)["training"].contains("gradient_dtype"));
}

TEST(Stacks, OfTorchtuneCompileWhatTheyAreToldTo) {
    json record = small_run();
    record["layout"]["framework"] = "torchtune full_finetune_distributed";
    const json eager = scenario_of(record)["training"];
    EXPECT_EQ(eager["norm_kernel"], "composed");
    EXPECT_FALSE(eager.contains("loss_logits"));
    record["layout"]["torch_compile"] = true;
    const json compiled = scenario_of(record)["training"];
    EXPECT_FALSE(compiled.contains("norm_kernel"));
    EXPECT_EQ(compiled["loss_logits"], "in_place");
}

// Of eight H100 at 67 TFLOP/s without tensor cores and 495 with them: what is said decides.
TEST(Stacks, InFp32MultiplyInTf32WhereTheSourceSaysSo) {
    json record = small_run();
    record["gpu"] = "h100-sxm";
    record["layout"]["precision"] = "fp32";
    record["layout"]["framework"] = "Megatron-LM";
    EXPECT_EQ(translate(record, rules(), Fitted::all_sources).profile_patch, "");
    record["notes"] = "theoryflops=495T (TF32)";
    const Translation found = translate(record, rules(), Fitted::all_sources);
    const json places = json::parse(found.profile_patch);
    const json profile = read_json(kLibrary + "/profiles/h100-sxm.json");
    const double bf16 = profile["gemm"]["bf16"]["rate_tflops"];
    const json& peaks = profile["hardware"]["peak_tflops"];
    EXPECT_NEAR(places["/gemm/fp32/rate_tflops/value"].get<double>(),
                bf16 * peaks["tf32"].get<double>() / peaks["bf16"].get<double>(), 0.01 * bf16);
    for (const auto& [place, value] : places.items())
        EXPECT_TRUE(profile.contains(json::json_pointer(place))) << place;
}

// MindFormers makes the activations of MLPs again, not layers, where it is told of layers alone.
TEST(Stacks, OfMindFormersRecomputeWhatTheyName) {
    json record = small_run();
    record["layout"]["framework"] = "MindSpore / MindFormers v1.5.0";
    record["layout"]["recompute"] = "selective_layers";
    record["layout"]["recompute_stated"] =
        R"({"recompute": false, "select_recompute": [8, 4, 4, 1]})";
    EXPECT_EQ(scenario_of(record)["layout"]["recompute_modules"], json::array({"mlp_act"}));
    record["layout"]["recompute_stated"] = R"({"recompute": [6, 3], "select_recompute": false})";
    EXPECT_EQ(scenario_of(record)["layout"]["recompute"], "selective_layer");
}

TEST(Stacks, OnVoltaHaveNoFusedAttentionAndNodesOfEightNoSwitch) {
    json record = small_run();
    record["gpu"] = "v100-32gb-sxm";
    record["layout"]["precision"] = "fp16";
    record["layout"]["framework"] = "Megatron-LM";
    const json eight = scenario_of(record);
    EXPECT_EQ(eight["training"]["attention_kernel"], "unfused");
    EXPECT_EQ(eight["cluster"]["intra_node"]["kind"], "hybrid_cube_mesh");
    record["interconnect"] = "DGX-2, NVSwitch";
    EXPECT_EQ(scenario_of(record)["cluster"]["intra_node"]["kind"], "nvswitch");
}

// A third of a GPU's links goes to each of three others; an NVL72 domain has switches.
TEST(Stacks, InNodesOfFourHaveDirectLinks) {
    json record = small_run();
    record["gpus_per_node"] = 4;
    for (const char* gpu : {"v100-16gb-sxm", "a100-40gb-sxm", "h100-64gb-sxm", "gh200-96gb"}) {
        record["gpu"] = gpu;
        const json cluster = scenario_of(record)["cluster"];
        EXPECT_EQ(cluster["devices_per_node"], 4) << gpu;
        EXPECT_EQ(cluster["intra_node"]["kind"], "xgmi") << gpu;
        EXPECT_FALSE(cluster["intra_node"].contains("host_GBps")) << gpu;
    }
    record["gpu"] = "gb200";
    EXPECT_EQ(scenario_of(record)["cluster"]["intra_node"]["kind"], "nvswitch");
    record["gpu"] = "a100-80gb-sxm";
    record["gpus_per_node"] = 8;
    EXPECT_EQ(scenario_of(record)["cluster"]["intra_node"]["kind"], "nvswitch");
}

// NVIDIA's recipes adapt queries, keys and values; PEFT's whatever multiplies.
TEST(Stacks, OnPeftAdaptEveryProduct) {
    json record = small_run();
    record["layout"]["task"] = "lora";
    record["model"]["lora_rank"] = 64;
    const auto adapted = [&](const char* framework) {
        record["layout"]["framework"] = framework;
        return scenario_of(record)["training"]["lora"]["target_modules"].size();
    };
    EXPECT_EQ(adapted("NeMo"), 1u);
    EXPECT_EQ(adapted("Hugging Face Trainer"), 4u);
}

TEST(Stacks, OfTransformersNormaliseByOperationsUnlessKernelsAreNamed) {
    json record = small_run();
    record["layout"]["framework"] = "Hugging Face Trainer";
    EXPECT_EQ(scenario_of(record)["training"].value("norm_kernel", ""), "composed");
    record["layout"]["framework"] = "Hugging Face Trainer + Liger";
    EXPECT_FALSE(scenario_of(record)["training"].contains("norm_kernel"));
    // GPT-2's own norm is one kernel, compiled or not.
    record["layout"]["framework"] = "PyTorch DDP";
    record["layout"]["torch_compile"] = false;
    record["model"]["gated_mlp"] = false;
    EXPECT_FALSE(scenario_of(record)["training"].contains("norm_kernel"));
}

// GPT 1.7B keeps s·b·h·(34 + 5·a·s/h) bytes of each of its 24 layers (Korthikanti et al. 2022,
// arXiv 2205.05198, section 4.1): 16 sequences at once 256 GB, one 16 GB; and 18 bytes of each
// parameter, 31 GB. A GPU has 80.
TEST(Stacks, ThatRanHadRoomForWhatTheyLeaveOpen) {
    json record = json_of("/published/megatron-2021.json").front();
    record["layout"]["recompute"] = "not stated";
    const auto taken = [&](int micro_batch) {
        record["layout"]["micro_batch"] = micro_batch;
        const Validation found = validate(json::array({record}));
        EXPECT_EQ(found.rows.size(), 1U);
        return found.rows.at(0);
    };
    EXPECT_EQ(taken(1).assumed, std::vector<std::string>{"recomputation: none"});
    const ValidatedRow full = taken(16);
    EXPECT_EQ(full.assumed,
              std::vector<std::string>{"recomputation: full, without which the run does not fit"});
    record["layout"]["recompute"] = "full";
    EXPECT_EQ(full.predicted_s, taken(16).predicted_s);
    // What ran out of memory says nothing of that kind.
    record["layout"]["recompute"] = "not stated";
    record["kind"] = "oom";
    const Validation ran_out = validate(json::array({record}));
    EXPECT_EQ(ran_out.out_of_memory.true_positive, 1);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
