// orrery import: what it writes is the scenario that a person would have written, what it cannot
// say is said.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/scenario_input.hpp"
#include "plan/scenario/reader.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using Args = std::vector<std::string>;

std::string fixture(const std::string& name) {
    return folder() + "imports/" + name;
}

Outcome import(const std::string& file, const Args& options) {
    Args args = {"import", file};
    args.insert(args.end(), options.begin(), options.end());
    return run(args);
}

plan::Scenario scenario_of(const std::string& text) {
    plan::ReadResult result =
        plan::read_scenario_text(text, "scenario", folder(), {}, library_folder());
    EXPECT_EQ(plan::format_text(result.errors), "");
    return result.scenario.value_or(plan::Scenario{});
}

const Args kGpt3 = {"--cluster", "clusters/a100-80gb-sxm-1024.json"};
const Args kLlama3 = {"--cluster", "clusters/h100-sxm-256.json", "--gpus", "256"};
const Args kZero3 = {"--model",   "models/llama2-7b.json",
                     "--cluster", "clusters/a100-80gb-sxm-8.json",
                     "--gpus",    "8",
                     "--set",     "training.sequence_length=4096",
                     "--set",     "training.framework=orrery"};

TEST(Import, MakesTheScenarioThatOneWouldWrite) {
    const struct {
        std::string file, by_hand;
        Args options;
    } all[] = {
        {"gpt3-175b.sh", "gpt3-175b.json", kGpt3},
        {"llama3-70b.toml", "llama3-70b.json", kLlama3},
        {"llama3-70b-slurm.sh", "llama3-70b-slurm.json", kLlama3},
        {"gpt3-13b-deepspeed.sh",
         "gpt3-13b-deepspeed.json",
         {"--cluster", "clusters/a100-80gb-sxm-1024.json"}},
        {"gpt-6.7b-zero.sh",
         "gpt-6.7b-zero.json",
         {"--cluster", "clusters/a100-80gb-sxm-1024.json"}},
        {"llama3-70b-nemo.py", "llama3-70b-nemo.json", {"--cluster", "clusters/h100-sxm-256.json"}},
        {"llama2-70b-nemo.yaml",
         "llama2-70b-nemo.json",
         {"--cluster", "clusters/h100-sxm-256.json"}},
        {"smollm-1.7b.yaml",
         "smollm-1.7b.json",
         {"--cluster", "clusters/h100-sxm-256.json", "--set", "training.framework=megatron"}},
        {"llama2-7b-zero3.json", "llama2-7b-zero3.scenario.json", kZero3}};
    for (const auto& one : all) {
        SCOPED_TRACE(one.file);
        const Outcome outcome = import(fixture(one.file), one.options);
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_TRUE(scenario_of(outcome.out) == scenario_of(content_of(fixture(one.by_hand))))
            << outcome.out;
    }
}

TEST(Import, WhatItWritesIsSimulated) {
    const std::string path = testing::TempDir() + "imported_scenario.json";
    Args options = kGpt3;
    options.insert(options.end(), {"-o", path});
    const Outcome outcome = import(fixture("gpt3-175b.sh"), options);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const Outcome simulated = run({"simulate", path});
    EXPECT_EQ(simulated.code, 0) << simulated.err;
    EXPECT_NE(simulated.out.find("tensor 8 x pipeline 8 x data 16"), std::string::npos);
}

TEST(Import, NamesWhatBecameOfEachKey) {
    Args options = kGpt3;
    options.push_back("--json");
    const auto json = nlohmann::json::parse(import(fixture("gpt3-175b.sh"), options).out);
    EXPECT_EQ(json["scenario"]["layout"]["tensor_parallel"], 8);
    bool found = false;
    for (const auto& mapped : json["mapped"])
        found = found || (mapped["from"] == "--tensor-model-parallel-size" &&
                          mapped["to"] == "layout.tensor_parallel" && mapped["value"] == 8);
    EXPECT_TRUE(found);
    found = false;
    for (const auto& ignored : json["ignored"])
        found = found || (ignored["key"] == "--save" && ignored["value"] == "$1" &&
                          ignored["why"] == "checkpoints stand outside of a step");
    EXPECT_TRUE(found);
    EXPECT_TRUE(json["unsupported"].empty());
    EXPECT_TRUE(json["missing"].empty());
}

TEST(Import, Report) {
    expect_golden("import.txt", import(fixture("llama3-70b.toml"), {"--gpus", "256"}).err);
}

TEST(Import, WhatIsMissingIsSaidAndTheRestWritten) {
    const Outcome outcome = import(fixture("gpt3-175b.sh"), {});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.err.find("still to be given, e.g. by --set KEY=VALUE\n  cluster"),
              std::string::npos)
        << outcome.err;
    EXPECT_FALSE(nlohmann::json::parse(outcome.out).contains("cluster"));
}

// A config that a script names is read where it stands, whatever folder one imports from.
TEST(Import, ReadsTheDeepSpeedConfigBesideTheScript) {
    const std::string folder = testing::TempDir() + "beside/";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "ds.json") << R"({"zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": "auto"})";
    std::ofstream(folder + "run.sh")
        << "deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 2\n";
    const Args options = {"--model", "models/llama2-7b.json", "--cluster",
                          "clusters/a100-80gb-sxm-8.json"};
    const Outcome outcome = import(folder + "run.sh", options);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["layout"]["zero_stage"], 3) << outcome.err;
    std::filesystem::remove_all(folder);
}

// The script of GPT-3 with more flags, as a file of its own.
std::string with_flags(const std::string& name, const std::string& flags) {
    return written(name,
                   replaced(content_of(fixture("gpt3-175b.sh")), "--bf16", "--bf16 " + flags));
}

TEST(Import, WhatHasNoCounterpartStopsIt) {
    const std::string file = with_flags("sync.sh", "--train-sync-interval 8 --banana");
    const std::string path = testing::TempDir() + "sync.json";
    std::filesystem::remove(path);
    Args options = kGpt3;
    options.insert(options.end(), {"-o", path});
    const Outcome refused = import(file, options);
    EXPECT_EQ(refused.code, 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_NE(refused.err.find("--train-sync-interval  8     not modelled\n"), std::string::npos)
        << refused.err;
    EXPECT_NE(refused.err.find("--banana               true  not known; nearest: "),
              std::string::npos)
        << refused.err;
    EXPECT_NE(refused.err.find("orrery import: 2 settings without a counterpart: nothing was "
                               "written; --allow-unsupported leaves them out\n"),
              std::string::npos);
    options.push_back("--allow-unsupported");
    EXPECT_EQ(import(file, options).code, 0);
    EXPECT_TRUE(std::filesystem::exists(path));
}

// Experts left out of Mixtral would be a dense model of another size: no option allows that.
TEST(Import, WhatChangesTheModelIsNeverLeftOut) {
    const struct {
        const char *flags, *named;
    } all[] = {{"--num-experts 8 --disable-bias-linear --moe-shared-expert-gate",
                "1 setting without which"},
               {"--window-size 4096,0", "1 setting without which"},
               {"--experimental-attention-variant gated_delta_net", "1 setting without which"},
               {"--mtp-use-repeated-layer", "1 setting without which"},
               {"--retro-add-retriever", "1 setting without which"},
               {"--encoder-num-layers 12 --deterministic-mode", "1 setting without which"},
               {"--qk-layernorm", "1 setting without which"},
               {"--position-embedding-type none", "1 setting without which"}};
    const std::string path = testing::TempDir() + "experts.json";
    std::filesystem::remove(path);
    Args options = kGpt3;
    options.insert(options.end(), {"-o", path, "--allow-unsupported"});
    for (const auto& one : all) {
        SCOPED_TRACE(one.flags);
        const Outcome refused = import(with_flags("experts.sh", one.flags), options);
        EXPECT_EQ(refused.code, 3);
        EXPECT_FALSE(std::filesystem::exists(path));
        EXPECT_NE(refused.err.find(one.named), std::string::npos) << refused.err;
        EXPECT_NE(refused.err.find("without which it is another model, and Orrery has no "
                                   "counterpart\n  --"),
                  std::string::npos)
            << refused.err;
    }
    const std::string t5 = written("t5.sh", replaced(content_of(fixture("gpt3-175b.sh")),
                                                     "pretrain_gpt.py", "pretrain_t5.py"));
    const Outcome refused = import(t5, options);
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find("pretrain_t5.py"), std::string::npos) << refused.err;
}

// Neutral values leave the model what it is.
TEST(Import, ExpertsThatAreNoneStopNothing) {
    EXPECT_EQ(import(with_flags("one.sh", "--expert-model-parallel-size 1"), kGpt3).code, 0);
}

TEST(Import, WhatWasLeftOutStandsInTheScenarioAndInItsReports) {
    const std::string path = testing::TempDir() + "approximated.json";
    Args options = kGpt3;
    options.insert(options.end(), {"-o", path, "--allow-unsupported"});
    const std::string script = with_flags("approximated.sh", "--train-sync-interval 8");
    ASSERT_EQ(import(script, options).code, 0);
    const nlohmann::json imported = nlohmann::json::parse(content_of(path))["imported"];
    EXPECT_EQ(imported["from"], "Megatron-LM command line " + script);
    ASSERT_EQ(imported["approximations"].size(), 1u);
    EXPECT_EQ(imported["approximations"][0]["key"], "--train-sync-interval");
    EXPECT_EQ(imported["approximations"][0]["value"], "8");
    EXPECT_EQ(imported["approximations"][0]["why"], "not modelled");
    for (const Args& command : {Args{"simulate", path}, Args{"simulate", path, "--timeline"},
                                Args{"explain", path}, Args{"diff", path, path}}) {
        const Outcome report = run(command);
        EXPECT_EQ(report.code, 0) << report.err;
        EXPECT_NE(report.out.find("--train-sync-interval 8 (not"), std::string::npos) << report.out;
        EXPECT_EQ(report.out.find("/imported"), std::string::npos) << "listed as unused";
    }
    const auto json = nlohmann::json::parse(run({"simulate", path, "--json"}).out);
    EXPECT_EQ(json["scenario"]["imported"], imported);
}

TEST(Import, WhatTheScenarioSaysOfItsSourceIsChecked) {
    const Outcome outcome = run({"simulate", tiny(), "--set", "imported.source=run.sh", "--set",
                                 "imported.approximations=[{\"key\":\"--a\"}]"});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_NE(outcome.err.find("imported.source"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("imported/approximations/0/why"), std::string::npos) << outcome.err;
}

// Megatron-LM's own defaults: --fp8-format turns FP8 on, beside bf16 alone, delayed unless said.
TEST(Import, ReadsEightBitProductsOfMegatron) {
    const auto imported = [](const std::string& flags) {
        return import(
            written("fp8.sh", replaced(content_of(fixture("gpt3-175b.sh")), "--bf16", flags)),
            kGpt3);
    };
    const auto training = [&](const std::string& flags) {
        const Outcome outcome = imported(flags);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return nlohmann::json::parse(outcome.out)["training"];
    };
    EXPECT_EQ(training("--bf16 --fp8-format hybrid")["precision"], "fp8");
    EXPECT_EQ(training("--bf16 --fp8-format hybrid")["fp8_recipe"], "delayed");
    EXPECT_EQ(training("--bf16 --fp8-format e4m3 --fp8-recipe blockwise")["fp8_recipe"],
              "blockwise");
    EXPECT_EQ(training("--bf16 --fp8-recipe blockwise")["precision"], "bf16");
    const Outcome refused = imported("--fp16 --fp8-format hybrid");
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find("FP8 is modelled beside bf16"), std::string::npos) << refused.err;
}

// The converter turns FP8 on, the section says how: tensorwise unless it says otherwise.
TEST(Import, ReadsEightBitProductsOfTorchtitan) {
    const auto imported = [](const std::string& model, const std::string& section) {
        const std::string base =
            replaced(content_of(fixture("llama3-70b.toml")), "[model]\n", "[model]\n" + model);
        return import(written("fp8.toml", base + section), kLlama3);
    };
    const auto training = [&](const std::string& model, const std::string& section) {
        const Outcome outcome = imported(model, section);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return nlohmann::json::parse(outcome.out)["training"];
    };
    const std::string converted = "converters = [\"float8\"]\n";
    EXPECT_EQ(training(converted, "")["precision"], "fp8");
    EXPECT_EQ(training(converted, "")["fp8_recipe"], "tensorwise");
    const std::string rowwise = "\n[float8]\nrecipe_name = \"rowwise\"\n";
    EXPECT_EQ(training(converted, rowwise)["fp8_recipe"], "rowwise");
    EXPECT_EQ(training("", rowwise)["precision"], "bf16");
    const Outcome gathered =
        imported(converted, "\n[float8]\nenable_fsdp_float8_all_gather = true\n");
    EXPECT_EQ(gathered.code, 3);
    EXPECT_NE(gathered.err.find("parameters are gathered in 16 bits"), std::string::npos)
        << gathered.err;
}

// A folder as Hugging Face writes them, with the config of a shipped model.
std::string model_folder(const std::string& name) {
    const std::filesystem::path path = testing::TempDir() + name;
    std::filesystem::create_directories(path);
    auto config = nlohmann::json::parse(content_of(library_folder() + "/models/llama3-8b.json"));
    config.erase("name");  // the library's own key
    std::ofstream(path / "config.json") << config;
    return path.string();
}

TEST(Import, AModelOfHuggingFaceBeginsAScenario) {
    const std::string folder_of_model = model_folder("Llama-3-8B");
    const std::string path = testing::TempDir() + "begun.json";
    for (const std::string& file : {folder_of_model, folder_of_model + "/config.json"}) {
        const Outcome begun = import(file, {});
        EXPECT_EQ(begun.code, 0) << begun.err;
        for (const char* key : {"cluster", "layout.global_batch_size", "training.sequence_length"})
            EXPECT_NE(begun.err.find(std::string("  ") + key), std::string::npos) << begun.err;
        const Outcome whole =
            import(file, {"--cluster", "clusters/h100-sxm-8.json", "--set",
                          "layout.global_batch_size=64", "--set", "training.sequence_length=4096",
                          "--set", "layout.tensor_parallel=8", "-o", path});
        ASSERT_EQ(whole.code, 0) << whole.err;
        EXPECT_EQ(nlohmann::json::parse(content_of(path))["model"],
                  folder_of_model + "/config.json");
        const Outcome simulated = run({"simulate", path});
        EXPECT_NE(simulated.out.find("8,030,261,248 parameters"), std::string::npos)
            << simulated.out << simulated.err;
    }
    const Outcome other = import(folder_of_model, {"--model", "models/llama2-7b.json"});
    EXPECT_EQ(other.code, 3);
    EXPECT_NE(other.err.find("this is a model itself"), std::string::npos) << other.err;
}

// Refused here too, by the reader of scenarios.
TEST(Import, AModelThatIsNotModelledIsRefused) {
    const std::string file =
        written("llama4.json",
                R"({"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"]})");
    const Outcome outcome = import(file, {"--allow-unsupported"});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_NE(outcome.err.find("pictures beside the text"), std::string::npos) << outcome.err;
}

TEST(Scenario, AModelIsNoScenarioAndOneAnswerSaysSo) {
    const std::string folder_of_model = model_folder("no-scenario");
    const Outcome config = run({"simulate", folder_of_model + "/config.json"});
    EXPECT_EQ(config.code, 5);
    EXPECT_NE(config.err.find("error[S026]: this is the config of a model, not a scenario"),
              std::string::npos)
        << config.err;
    EXPECT_NE(config.err.find("1 error; nothing was run."), std::string::npos) << config.err;
    const Outcome whole = run({"simulate", folder_of_model});
    EXPECT_EQ(whole.code, 5);
    EXPECT_NE(whole.err.find("orrery import " + folder_of_model), std::string::npos) << whole.err;
}

// Variables of the environment, as they were when the object ends.
class Variable {
  public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        setenv(name, value.c_str(), 1);
    }
    ~Variable() {
        if (before_)
            setenv(name_, before_->c_str(), 1);
        else
            unsetenv(name_);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
    std::optional<std::string> before_;
};

TEST(Scenario, ReadsModelsFromFoldersAndFromTheCacheOfHuggingFace) {
    namespace fs = std::filesystem;
    const std::string folder_of_model = model_folder("of-a-folder");
    const Outcome from_folder =
        run({"simulate", tiny(), "--set", "model=" + folder_of_model, "--json"});
    EXPECT_EQ(nlohmann::json::parse(from_folder.out)["scenario"]["model"]["name"], "of-a-folder")
        << from_folder.err;
    const fs::path hub = testing::TempDir() + "hf-home/hub";
    const fs::path model = hub / "models--some-org--A-Model-1.5B";
    fs::remove_all(hub);
    fs::create_directories(model / "refs");
    for (const char* commit : {"0a1b", "ffff"})
        fs::create_directories(model / "snapshots" / commit);
    fs::copy_file(folder_of_model + "/config.json", model / "snapshots/0a1b/config.json");
    const Variable home("HF_HOME", testing::TempDir() + "hf-home");
    const Variable cache("HF_HUB_CACHE", "");
    const auto simulated = [](const std::string& name) {
        return run({"simulate", tiny(), "--set", "model=" + name, "--json"});
    };
    const Outcome without_ref = simulated("some-org/A-Model-1.5B");
    EXPECT_EQ(without_ref.code, 5) << "two snapshots, and nothing says which";
    EXPECT_NE(without_ref.err.find("as a model of Hugging Face in " + hub.string()),
              std::string::npos)
        << without_ref.err;
    EXPECT_NE(without_ref.err.find("nothing is downloaded"), std::string::npos);
    std::ofstream(model / "refs/main") << "0a1b\n";
    const Outcome found = simulated("some-org/A-Model-1.5B");
    EXPECT_EQ(nlohmann::json::parse(found.out)["scenario"]["model"]["name"], "A-Model-1.5B")
        << found.err;
    EXPECT_EQ(simulated("some-org/Another").code, 5);
}

TEST(Import, ErrorsOfTheScenarioAreThoseOfTheReader) {
    const std::string file =
        written("heads.sh", replaced(content_of(fixture("gpt3-175b.sh")),
                                     "--num-attention-heads 96", "--num-attention-heads 90"));
    const Outcome outcome = import(file, kGpt3);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("error[S011]"), std::string::npos) << outcome.err;
}

TEST(Import, AModelOfAnotherShapeIsRefused) {
    Args options = kGpt3;
    options.insert(options.end(), {"--model", "models/gpt3-13b.json"});
    const Outcome outcome = import(fixture("gpt3-175b.sh"), options);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_NE(outcome.err.find("error[I005]: models/gpt3-13b.json is not the model of the file\n"),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("--num-layers 96, layers of models/gpt3-13b.json: 40"),
              std::string::npos);
    options.back() = "models/gpt3-175b.json";
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), options).code, 0);
}

TEST(Import, ReadsStandardInput) {
    std::istringstream input("--num-layers 2 --banana 3");
    std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
    const Outcome outcome = import("-", {"--from", "megatron", "--json"});
    std::cin.rdbuf(before);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["scenario"]["description"],
              "Megatron-LM command line standard input");
}

TEST(Import, HasTheExitCodesOfTheOthers) {
    EXPECT_EQ(import("nowhere.sh", {}).code, 5);
    EXPECT_EQ(import(written("open.sh", "python a.py 'x"), {}).code, 5);
    EXPECT_EQ(import(written("broken.json", "{"), {}).code, 5);
    EXPECT_EQ(import(written("broken.toml", "[a"), {}).code, 5);
    EXPECT_EQ(import(written("broken.yaml", "a: [1"), {}).code, 5);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"--gpus", "12"}).code, 3);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"--from", "axolotl"}).code, 2);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"--gpus", "0"}).code, 2);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"--set", "x"}).code, 2);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"-o", "/nowhere/run.json"}).code, 8);
    EXPECT_EQ(import(fixture("gpt3-175b.sh"), {"--cluster", "nowhere.json"}).code, 5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
