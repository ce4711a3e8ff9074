// orrery launch: what it writes, what it says of it, and what it does not write onto.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

const std::string kRuns = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/";
const std::string kGpt3 = kRuns + "gpt3-175b-a100x1024.json";
const std::string kTiny = kRuns + "tiny-gpt.json";

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(Launch, WritesACommandLineThatImportTakes) {
    const std::string script = testing::TempDir() + "launch_gpt3.sh";
    std::filesystem::remove(script);
    const Outcome launched = run({"launch", kGpt3, "--for", "megatron", "-o", script});
    ASSERT_EQ(launched.code, 0) << launched.err;
    EXPECT_EQ(launched.out, "");
    const std::string text = content_of(script);
    EXPECT_TRUE(has(text, "torchrun --nproc_per_node=8 --nnodes=128 ")) << text;
    EXPECT_TRUE(has(text, "--tensor-model-parallel-size 8")) << text;
    const Outcome imported =
        run({"import", script, "--cluster", "clusters/a100-80gb-sxm-1024.json", "--json"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    const auto scenario = nlohmann::json::parse(imported.out)["scenario"];
    EXPECT_EQ(scenario["layout"]["data_parallel"], 16);  // 1,024 ÷ (8 × 8)
    EXPECT_EQ(scenario["model"]["vocab_size"], 51200);
}

TEST(Launch, WhatTheToolDoesOtherwiseIsSaidTwice) {
    const Outcome launched = run({"launch", kGpt3, "--for", "megatron"});
    ASSERT_EQ(launched.code, 0);
    const std::string said = "no counterpart: training.framework \"orrery\"; here \"megatron\"";
    EXPECT_TRUE(has(launched.err, "orrery launch: " + said)) << launched.err;
    EXPECT_TRUE(has(launched.out, "# " + said)) << launched.out;
}

TEST(Launch, ALayoutThatTheToolCannotRunIsRefusedByItsKey) {
    const std::vector<std::string> args = {"launch",   kGpt3,   "--for",
                                           "megatron", "--set", "layout.schedule=gpipe"};
    const Outcome refused = run(args);
    EXPECT_EQ(refused.code, 3);
    EXPECT_EQ(refused.out, "");
    EXPECT_TRUE(has(refused.err, "cannot be run: layout.schedule \"gpipe\"; this is \"1f1b\""))
        << refused.err;
    std::vector<std::string> meant = args;
    meant.push_back("--allow-unsupported");
    const Outcome written = run(meant);
    EXPECT_EQ(written.code, 0);
    EXPECT_TRUE(has(written.out, "# cannot be run: layout.schedule")) << written.out;
}

TEST(Launch, AsJsonEachNoteHasItsKeyAndBothValues) {
    const Outcome launched = run({"launch", kGpt3, "--for", "torchtitan", "--json"});
    EXPECT_EQ(launched.code, 3);
    const auto out = nlohmann::json::parse(launched.out);
    EXPECT_EQ(out["text"], "");
    bool found = false;
    for (const auto& note : out["notes"])
        if (note["key"] == "layout.zero_stage") {
            found = true;
            EXPECT_EQ(note["fate"], "refused");
            EXPECT_EQ(note["wanted"], 1);
            EXPECT_EQ(note["stands"], 3);
        }
    EXPECT_TRUE(found) << launched.out;
}

TEST(Launch, ASlurmScriptStartsARankForEachTask) {
    const Outcome launched = run({"launch", kTiny, "--for", "slurm", "--backend", "cuda",
                                  "--sbatch", "--partition=gpu --time=1:00:00"});
    ASSERT_EQ(launched.code, 0) << launched.err;
    for (const char* line :
         {"#!/bin/bash\n#SBATCH --job-name=tiny-gpt\n#SBATCH --nodes=1\n#SBATCH --ntasks=8\n",
          "#SBATCH --gpus-per-node=8\n", "#SBATCH --partition=gpu\n#SBATCH --time=1:00:00\n",
          " --json --backend cuda --trace \"tiny-gpt-$SLURM_JOB_ID.orrery\""})
        EXPECT_TRUE(has(launched.out, line)) << line << '\n' << launched.out;
}

TEST(Launch, OrrerysOwnCommandIsByTheLauncherThatIsAskedFor) {
    const auto command = [](const std::vector<std::string>& options) {
        std::vector<std::string> args = {"launch", kTiny, "--for", "orrery"};
        args.insert(args.end(), options.begin(), options.end());
        const Outcome outcome = run(args);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return replaced(outcome.out, program("orrery-run"), "orrery-run");
    };
    const std::string train = "orrery-run train " + kTiny + " --json";
    EXPECT_EQ(command({}), train + '\n');
    EXPECT_EQ(command({"--launcher", "mpirun", "--hosts", "a:4,b:4"}),
              "mpirun -n 8 --host a:4,b:4 -x MASTER_ADDR=a " + train + '\n');
    EXPECT_EQ(command({"--launcher", "srun"}), "srun --nodes 1 --ntasks 8 " + train + '\n');
    EXPECT_EQ(command({"--launcher", "torchrun", "--backend", "cuda"}),
              "torchrun --no-python --nnodes 1 --nproc-per-node 8 " + train + " --backend cuda\n");
}

TEST(Launch, OptionsOfAnotherToolAreRefused) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--for", "megatron", "--launcher", "srun"},
          {"--for", "megatron", "--backend", "cuda"},
          {"--for", "orrery", "--sbatch", "--time=1"},
          {"--for", "slurm", "--allow-unsupported"},
          {"--for", "orrery", "--hosts", "a"},
          {"--for", "orrery", "--set", "layout.micro_batch_size=2"},
          {"--for", "horovod"}}) {
        std::vector<std::string> args = {"launch", kTiny};
        args.insert(args.end(), options.begin(), options.end());
        EXPECT_EQ(run(args).code, 2) << options[1] << ' ' << options[2 % options.size()];
    }
}

TEST(Launch, NothingOfAUsersIsOverwritten) {
    const std::string mine = written("my_own.sh", "echo mine\n");
    const Outcome refused = run({"launch", kGpt3, "--for", "megatron", "-o", mine});
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(has(refused.err, "is no file that orrery launch wrote")) << refused.err;
    EXPECT_EQ(content_of(mine), "echo mine\n");
    const std::string config = testing::TempDir() + "launch_ds.json";
    std::filesystem::remove(config);
    for (int twice = 0; twice < 2; ++twice) {
        const Outcome outcome = run({"launch", kTiny, "--for", "deepspeed", "-o", config});
        EXPECT_EQ(outcome.code, 0) << outcome.err;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
