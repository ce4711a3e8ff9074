// Scenarios that are sound: what is read, from where, and that its resolved text reads the same.
#include "plan/scenario/reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

using Json = nlohmann::json;

const fs::path kSource = ORRERY_SOURCE_DIR;
const std::string kLibrary = (kSource / "scenarios").string();
const std::string kTestLibrary = (kSource / "tests/golden/errors/library").string();

// Library of the tests: a GPT of 96 layers, a Llama of 80, 16 nodes of 8 devices.
const char* const kSmall = R"({
  // comments are allowed
  "model": "models/gpt-96.json",
  "cluster": "clusters/a100-128.json",
  "layout": { "tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 64 },
  "training": { "sequence_length": 2048 }
})";

ReadResult read(const std::string& text, const std::vector<std::string>& sets = {}) {
    return read_scenario_text(text, "run.json", "", sets, kTestLibrary);
}

Scenario sound(const std::string& text, const std::vector<std::string>& sets = {}) {
    const ReadResult result = read(text, sets);
    EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    return result.scenario.value_or(Scenario{});
}

std::vector<fs::path> files(const std::string& folder) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(kSource / "scenarios" / folder)) {
        if (entry.path().extension() == ".json") out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
}

TEST(Reader, FillsDefaultsAndSettlesAutoAndEven) {
    const Scenario scenario = sound(kSmall);
    EXPECT_EQ(scenario.model.family, "gpt2");
    EXPECT_EQ(scenario.model.name, "gpt-96");
    EXPECT_EQ(scenario.model.mlp().ffn_hidden, 4 * 12288);  // n_inner defaults to four times n_embd
    EXPECT_EQ(scenario.model.attention().head_dim, 12288 / 96);
    EXPECT_EQ(scenario.model.attention().kv_heads, 96);
    EXPECT_TRUE(scenario.model.tied_embeddings);
    EXPECT_EQ(scenario.layout.data_parallel, 16 * 8 / (8 * 4));
    EXPECT_EQ(scenario.layout.layers_per_stage, (std::vector<std::int64_t>(4, 96 / 4)));
    EXPECT_EQ(scenario.layout.micro_batches(), 64 / 4);
    EXPECT_EQ(scenario.layout.schedule, "1f1b");
    EXPECT_EQ(scenario.training.precision, Precision::bf16);
    EXPECT_EQ(scenario.training.framework.name, "orrery");
    EXPECT_EQ(scenario.training.framework.gradient_bytes, 2);
    EXPECT_EQ(fs::path(scenario.cluster.profile_path),
              fs::path(kTestLibrary) / "profiles/a100.json");
}

TEST(Reader, LlamaDefaultsAreHuggingFaces) {
    const Scenario scenario = sound(kSmall, {"model=models/llama-80.json"});
    EXPECT_EQ(scenario.model.family, "llama");
    EXPECT_EQ(scenario.model.attention().kv_heads, 8);
    EXPECT_EQ(scenario.model.attention().head_dim, 8192 / 64);
    EXPECT_FALSE(scenario.model.tied_embeddings);
    EXPECT_FALSE(scenario.model.attention().qkv_bias);
    EXPECT_FALSE(scenario.model.attention().projection_bias);
    EXPECT_FALSE(scenario.model.mlp().bias);
    EXPECT_EQ(scenario.model.hidden_dropout, 0.0);
    const Scenario wide = sound(kSmall, {"model=models/llama-80.json", "model.head_dim=256"});
    EXPECT_EQ(wide.model.attention().head_dim, 256);  // need not be hidden / heads
}

TEST(Reader, GptDropoutDefaultsToATenthAndTrainingOverridesIt) {
    const std::string bare = R"({"model": {"model_type": "gpt2", "n_layer": 4, "n_embd": 64,
        "n_head": 8, "n_positions": 2048, "vocab_size": 100},
        "cluster": "clusters/a100-128.json", "layout": {"global_batch_size": 128},
        "training": {"sequence_length": 16)";
    const Scenario usual = sound(bare + "}}");
    EXPECT_EQ(usual.model.hidden_dropout, 0.1);
    EXPECT_EQ(usual.model.attention().dropout, 0.1);
    EXPECT_EQ(usual.model.name, "gpt2");
    const Scenario without = sound(bare + R"(, "dropout": 0}})");
    EXPECT_EQ(without.model.hidden_dropout, 0.0);
    EXPECT_EQ(without.model.attention().dropout, 0.0);
}

TEST(Reader, SetOverridesAnyKeyAfterReferencesResolve) {
    const Scenario scenario =
        sound(kSmall, {"model.n_layer=48", "layout.pipeline_parallel=2", "cluster.nodes=4",
                       "training.launch_us=7.5", "training.framework=megatron-2021",
                       "training.optimizer.learning_rate=1e-3", "run.data=tokens.bin",
                       "layout.layers_per_stage=[20,28]", "layout.layers_per_stage.0=20"});
    EXPECT_EQ(scenario.model.layers, 48);
    EXPECT_EQ(scenario.cluster.nodes, 4);
    EXPECT_EQ(scenario.layout.data_parallel, 4 * 8 / (8 * 2));
    EXPECT_EQ(scenario.layout.layers_per_stage, (std::vector<std::int64_t>{20, 28}));
    EXPECT_EQ(scenario.training.framework.name, "megatron-2021");
    EXPECT_EQ(scenario.training.framework.launch_us, 7.5);
    EXPECT_EQ(scenario.training.optimizer.learning_rate, 1e-3);
    EXPECT_EQ(scenario.run.data, "tokens.bin");
}

TEST(Reader, NameOfAClusterSaysWhatASetChangedOfItsHardware) {
    Json named = Json::parse(kSmall, nullptr, true, true);
    named["cluster"] = Json::parse(std::ifstream(kTestLibrary + "/clusters/a100-128.json"));
    const std::string name = named["cluster"]["name"] = "16 boxes";
    const std::string text = named.dump();
    EXPECT_EQ(sound(text, {"cluster.nodes=8", "cluster.inter_node.latency_us=7",
                           "cluster.price_usd_per_gpu_hour=2"})
                  .cluster.name,
              name + ", with nodes=8, inter_node.latency_us=7");
    EXPECT_EQ(sound(text, {R"(cluster.intra_node={"kind": "pcie", "bandwidth_GBps": 32,
                                                    "latency_us": 5})"})
                  .cluster.name,
              name + ", with intra_node=…");
    EXPECT_EQ(sound(text, {"cluster.nodes=8", "cluster.name=ours"}).cluster.name, "ours");
}

TEST(Reader, DevicesMayBeLeftIdle) {
    EXPECT_EQ(sound(kSmall, {"layout.data_parallel=2"}).layout.ranks(), 64);
}

// A price of one's own is the price; without one it is the list's, with its day and range, and what
// is resolved keeps it.
TEST(Reader, AClusterWithoutAPriceTakesThatOfTheList) {
    const std::string text = R"({"model": "models/gpt2-large.json",
        "cluster": "clusters/h100-sxm-8.json",
        "layout": {"global_batch_size": 8}, "training": {"sequence_length": 1024}})";
    const auto cluster_of = [&](const std::string& scenario, const std::vector<std::string>& sets) {
        const ReadResult result = read_scenario_text(scenario, "run.json", "", sets, kLibrary);
        EXPECT_TRUE(result.scenario) << format_text(result.errors);
        return result.scenario.value_or(Scenario{}).cluster;
    };
    const auto list = nlohmann::json::parse(
        std::ifstream(fs::path(kLibrary) / "prices.json"))["devices"]["h100-sxm"];
    const Cluster listed = cluster_of(text, {});
    ASSERT_TRUE(listed.list_price);
    EXPECT_EQ(listed.usd_per_device_hour(), list["usd"]);
    EXPECT_EQ(listed.list_price->date, list["date"]);
    EXPECT_LE(listed.list_price->low_usd, listed.list_price->usd);
    EXPECT_GE(listed.list_price->high_usd, listed.list_price->usd);
    const Cluster own = cluster_of(text, {"cluster.price_usd_per_gpu_hour=1.5"});
    EXPECT_FALSE(own.list_price);
    EXPECT_EQ(own.usd_per_device_hour(), 1.5);
    const std::string resolved =
        read_scenario_text(text, "run.json", "", {}, kLibrary).resolved_json;
    EXPECT_EQ(cluster_of(resolved, {}).usd_per_device_hour(), list["usd"]);
}

TEST(Reader, GradientsFollowTheWeightsUnlessSet) {
    const auto bytes = [](const std::vector<std::string>& sets) {
        return sound(kSmall, sets).training.framework.gradient_bytes;
    };
    EXPECT_EQ(bytes({}), 2);
    EXPECT_EQ(bytes({"training.precision=fp32"}), 4);
    EXPECT_EQ(bytes({"training.gradient_dtype=fp32"}), 4);
    EXPECT_EQ(bytes({"training.gradient_dtype=bf16"}), 2);
    EXPECT_EQ(bytes({"training.precision=fp16"}), 2);
    EXPECT_EQ(bytes({"training.precision=fp16", "training.gradient_dtype=fp16"}), 2);
    EXPECT_EQ(bytes({"training.precision=fp16", "training.gradient_dtype=fp32"}), 4);
    EXPECT_EQ(bytes({"training.precision=fp64"}), 8);
    EXPECT_EQ(bytes({"training.precision=fp64", "training.gradient_dtype=fp64"}), 8);
}

TEST(Reader, VocabularyIsPaddedToAMultipleTimesTensor) {
    Scenario scenario;
    scenario.model.vocabulary = 50257;
    scenario.training.framework.vocabulary_multiple = 128;
    scenario.layout.tensor_parallel = 1;
    EXPECT_EQ(padded_vocabulary(scenario), 50304);  // Megatron-LM's well-known padding of GPT-2
    scenario.layout.tensor_parallel = 8;
    EXPECT_EQ(padded_vocabulary(scenario), 51200);
    scenario.model.vocabulary = 51200;
    EXPECT_EQ(padded_vocabulary(scenario), 51200);
}

// A config.json as Hugging Face publishes it, with all that we do not read.
TEST(Reader, TakesAHuggingFaceConfigAsItIs) {
    const std::string config = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": null,
        "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        "rope_theta": 500000.0,
        "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256,
        "_name_or_path": "meta-llama/Llama-3.1-8B"})";
    const ReadResult result = read(kSmall, {"model=" + config, "layout.pipeline_parallel=1"});
    ASSERT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    EXPECT_EQ(result.scenario->model.name, "meta-llama/Llama-3.1-8B");
    EXPECT_EQ(result.scenario->model.attention().head_dim, 128);
    const auto resolved = nlohmann::json::parse(result.resolved_json);
    EXPECT_EQ(resolved["model"]["rope_theta"], 500000.0);
    EXPECT_EQ(resolved["model"]["torch_dtype"], "bfloat16");  // not ours: carried along
}

void expect_round_trip(const ReadResult& first, const std::string& base_dir,
                       const std::string& library) {
    ASSERT_TRUE(first.scenario.has_value()) << format_text(first.errors);
    const std::string name = first.scenario->source_path;
    const ReadResult again = read_scenario_text(first.resolved_json, name, base_dir, {}, library);
    ASSERT_TRUE(again.scenario.has_value()) << format_text(again.errors);
    EXPECT_EQ(*again.scenario, *first.scenario);
    EXPECT_EQ(again.resolved_json, first.resolved_json);
}

TEST(Reader, ResolvedTextReadsToTheSameScenario) {
    expect_round_trip(read(kSmall), "", kTestLibrary);
    expect_round_trip(
        read(kSmall, {"model=models/llama-80.json", "training.dropout=0.25", "layout.zero_stage=2",
                      "layout.schedule=interleaved", "layout.virtual_pipeline=2",
                      "layout.sequence_parallel=true", "layout.recompute=selective",
                      "training.schedule={\"warmup_steps\":7,\"decay\":\"cosine\"}",
                      "training.gradient_dtype=fp32", "training.tokens=1.5e12", "run.steps=10",
                      "run.checkpoint={\"path\":\"out\",\"every_steps\":5}", "cluster.pue=1.15",
                      "description=a test", "cluster.name=ours"}),
        "", kTestLibrary);
}

TEST(Reader, ResolvedPrecisionAndRecomputationReadToTheSame) {
    const std::vector<std::string> fp16 = {"training.precision=fp16"};
    EXPECT_EQ(sound(kSmall, fp16).training.loss_scale, 0);  // dynamic
    expect_round_trip(read(kSmall, fp16), "", kTestLibrary);
    const std::vector<std::string> fixed = {
        "training.precision=fp16", "training.loss_scale=1024", "training.dropout_masks=stored",
        "training.logits_dtype=fp32", "training.gradient_bucket_mb_per_rank=4"};
    EXPECT_EQ(sound(kSmall, fixed).training.loss_scale, 1024);
    expect_round_trip(read(kSmall, fixed), "", kTestLibrary);
    const std::vector<std::string> wide = {"training.precision=fp64"};
    EXPECT_EQ(sound(kSmall, wide).training.precision, Precision::fp64);
    expect_round_trip(read(kSmall, wide), "", kTestLibrary);
    const std::vector<std::string> root = {"layout.recompute=every_k"};
    EXPECT_EQ(sound(kSmall, root).layout.recompute_every, 0);
    expect_round_trip(read(kSmall, root), "", kTestLibrary);
    const std::vector<std::string> three = {"layout.recompute=every_k", "layout.recompute_every=3"};
    EXPECT_EQ(sound(kSmall, three).layout.recompute_every, 3);
    expect_round_trip(read(kSmall, three), "", kTestLibrary);
    const std::vector<std::string> second = {"layout.recompute=selective_layer"};
    EXPECT_EQ(sound(kSmall, second).layout.recompute_every, 2);
    expect_round_trip(read(kSmall, second), "", kTestLibrary);
    expect_round_trip(read(kSmall, {"layout.recompute=selective_op"}), "", kTestLibrary);
}

TEST(Reader, ResolvedConstantsCarryTheirSource) {
    const ReadResult result = read(kSmall, {"training.launch_us=7"});
    ASSERT_TRUE(result.scenario.has_value());
    const auto flags =
        nlohmann::json::parse(result.resolved_json)["training"]["framework"]["flags"];
    EXPECT_EQ(flags["launch_us"]["value"], 7);
    EXPECT_EQ(flags["launch_us"]["source"], "--set training.launch_us=7");
    EXPECT_EQ(flags["launch_queue"]["source"], "a test");
}

TEST(Reader, ShippedRunsAreSoundAndRoundTrip) {
    for (const fs::path& path : files("runs")) {
        SCOPED_TRACE(path.filename().string());
        const ReadResult result = read_scenario(path.string(), {}, kLibrary);
        expect_round_trip(result, path.parent_path().string(), kLibrary);
        const plan::Run run = result.scenario.value_or(Scenario{}).run;
        EXPECT_EQ(fs::exists(run.data_path), !run.data.empty());
    }
}

TEST(Reader, ShippedClustersAndModelsReadTogether) {
    const auto with = [](const fs::path& model, const fs::path& cluster, const char* framework) {
        const std::string text = R"({"model": "models/)" + model.filename().string() +
                                 R"(", "cluster": "clusters/)" + cluster.filename().string() +
                                 R"(", "layout": {"data_parallel": 1, "global_batch_size": 1},
                                 "training": {"sequence_length": 128, "framework": ")" +
                                 framework + R"("}})";
        return read_scenario_text(text, "run.json", "", {}, kLibrary);
    };
    for (const fs::path& model : files("models")) {
        const ReadResult result = with(model, files("clusters").front(), "megatron-2021");
        EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    }
    for (const fs::path& cluster : files("clusters")) {
        const ReadResult result = with(files("models").front(), cluster, "orrery");
        EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    }
}

TEST(Reader, AMissingOrUnreadableFileIsUnreadable) {
    const ReadResult missing = read_scenario("nowhere/run.json", {}, kTestLibrary);
    EXPECT_TRUE(missing.unreadable);
    ASSERT_EQ(missing.errors.size(), 1u);
    EXPECT_EQ(missing.errors[0].file, "nowhere/run.json");
    EXPECT_EQ(missing.errors[0].message, "the scenario cannot be read: No such file or directory");
    EXPECT_EQ(read_scenario(kTestLibrary, {}, kTestLibrary).errors.at(0).message,
              "the scenario cannot be read: it is a folder");
    EXPECT_TRUE(read("{").unreadable);
    EXPECT_FALSE(read("{}").unreadable);
}

TEST(Reader, LooksForFilesUpwardsToTheFolderCalledScenarios) {
    const fs::path top = fs::path(testing::TempDir()) / "orrery_reader_test";
    fs::remove_all(top);
    fs::create_directories(top / "scenarios/runs/mine");
    fs::create_directories(top / "scenarios/models");
    fs::copy_file(fs::path(kTestLibrary) / "models/gpt-96.json", top / "scenarios/models/own.json");
    fs::copy_file(fs::path(kTestLibrary) / "models/gpt-96.json", top / "outside.json");
    const auto run = [&](const std::string& model) {
        const fs::path path = top / "scenarios/runs/mine/run.json";
        std::ofstream(path) << kSmall;
        return read_scenario(path.string(), {"model=" + model}, kTestLibrary);
    };
    EXPECT_TRUE(run("models/own.json").scenario.has_value());
    EXPECT_TRUE(run("outside.json").unreadable);
    EXPECT_TRUE(run("../../../outside.json").scenario.has_value());
    EXPECT_TRUE(run((top / "outside.json").string()).scenario.has_value());
    fs::remove_all(top);
}

TEST(Reader, OriginOfAValueIsSaid) {
    const auto origin = [](const std::vector<std::string>& sets, const std::string& text = kSmall) {
        const ReadResult result = read(text, sets);
        return result.errors.empty() ? "" : result.errors[0].file + " | " + result.errors[0].origin;
    };
    EXPECT_EQ(origin({}, std::string(kSmall).replace(std::string(kSmall).find("64"), 2, "0")),
              "run.json | file run.json");
    EXPECT_EQ(origin({"layout.tensor_parallel=0"}),
              "run.json | from --set layout.tensor_parallel=0");
    EXPECT_EQ(origin({"layout.schedule=interleaved"}), "run.json | default");
    // The preset's dtype is at fault only when the training says fp32 and the preset bf16.
    EXPECT_EQ(
        origin({"training.framework.flags.gradient_dtype.value=bf16", "training.precision=fp32"}),
        "run.json | from --set training.framework.flags.gradient_dtype.value=bf16");
    EXPECT_EQ(origin({"training.framework=frameworks/narrow.json", "training.precision=fp32"}),
              "frameworks/narrow.json | preset frameworks/narrow.json");
    EXPECT_EQ(origin({"model=models/sliding.json"}),
              "models/sliding.json | file models/sliding.json");
}

// What the messages of batch_not_divisible, layers_uneven_set and copy_exceeds_cluster offer as
// help.
TEST(Reader, HelpThatIsOfferedHelps) {
    const std::vector<std::vector<std::string>> remedies = {
        {"layout.global_batch_size=66", "layout.data_parallel=3"},
        {"layout.global_batch_size=66", "layout.data_parallel=1"},
        {"layout.global_batch_size=68"},
        {"layout.pipeline_parallel=6", "layout.data_parallel=2"},
        {"layout.pipeline_parallel=16"},
        {"layout.pipeline_parallel=5", "layout.layers_per_stage=[19,19,19,19,20]",
         "layout.data_parallel=2"},
        {"layout.pipeline_parallel=32", "layout.tensor_parallel=4"},
        {"layout.pipeline_parallel=32", "cluster.nodes=32"},
    };
    for (const auto& sets : remedies)
        EXPECT_GT(sound(kSmall, sets).layout.ranks(), 0);
}

TEST(Override, NeedsAKeyAndAnEqualsSign) {
    EXPECT_TRUE(valid_override("layout.tensor_parallel=4"));
    EXPECT_TRUE(valid_override("run.data="));
    EXPECT_TRUE(valid_override("a=b=c"));
    EXPECT_FALSE(valid_override("layout.tensor_parallel"));
    EXPECT_FALSE(valid_override("=4"));
    EXPECT_FALSE(valid_override(""));
}

// Any text gives either a scenario or errors. Bytes are changed by a fixed sequence, so a failure
// can be repeated.
TEST(Reader, SurvivesDamagedText) {
    const std::string text = kSmall;
    const std::string replacements = "\"{}[],:0-9eE.x\n/*\\\x01\xff";
    std::uint32_t random = 1;
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = text;
        for (int changes = 0; changes < 1 + i % 4; ++changes) {
            random = random * 1664525u + 1013904223u;
            const std::size_t at = (random >> 8) % damaged.size();
            random = random * 1664525u + 1013904223u;
            damaged[at] = replacements[(random >> 8) % replacements.size()];
        }
        const ReadResult result = read(damaged);
        EXPECT_EQ(result.scenario.has_value(), result.errors.empty()) << damaged;
        EXPECT_NO_THROW(format_json(result.errors)) << damaged;
    }
}

// The largest size that each rule of S030 admits, and the next one.
TEST(Reader, RefusesSizesThatCannotBeCounted) {
    const auto code = [](const std::vector<std::string>& sets) {
        const ReadResult result = read(kSmall, sets);
        return result.errors.empty() ? std::string() : result.errors.front().code;
    };
    // 96 layers × m micro-batches ≤ 10^6: m = 10,416; 128 devices ÷ (8 × 4) = 4 data ranks.
    EXPECT_EQ(code({"layout.global_batch_size=41664"}), "");
    EXPECT_EQ(code({"layout.global_batch_size=41668"}), "S030");
    // 131,072 nodes of 8 devices are 2^20.
    const std::string batch = "layout.global_batch_size=" + std::to_string(1 << 20);
    EXPECT_EQ(code({"cluster.nodes=131072", batch}), "");
    EXPECT_EQ(code({"cluster.nodes=131104", "layout.global_batch_size=32776"}), "S030");
    // One rank, one micro-batch in flight of b sequences of 2,048 tokens. Elements per token: in
    // each of 96 layers 16 × 12,288 of the hidden size, 6 × 3 × 12,288 of heads, 6 × 49,152 of the
    // MLP, 5 × 96 × 2,048 scores; at the ends 16 × 12,288 and 5 × padded words.
    const std::int64_t words = sound(kSmall).model.vocabulary;
    const double padded = static_cast<double>((words + 127) / 128 * 128);
    const double width =
        96.0 * (16 * 12288 + 18 * 12288 + 6 * 49152 + 5 * 96 * 2048) + 16 * 12288 + 5 * padded;
    const auto most = static_cast<std::int64_t>(1e14 / (2048 * width));
    const auto with_batch = [&](std::int64_t sequences) {
        const std::string count = std::to_string(sequences);
        return code({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                     "layout.data_parallel=1", "training.attention_kernel=unfused",
                     "layout.micro_batch_size=" + count, "layout.global_batch_size=" + count});
    };
    EXPECT_EQ(with_batch(most), "");
    EXPECT_EQ(with_batch(most + 1), "S030");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
