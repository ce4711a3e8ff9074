// The system calls of a save, each of which fails or is the last of its process
// (program/failing_storage.cpp): whatever is left, the newest checkpoint that is complete is what
// was trained, to the last bit.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "tests/cli/world.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kSavedSteps = 2;

// Two steps of one rank, each saved, of which one checkpoint stays.
Outcome train_saving(const std::string& path, const std::string& environment,
                     const std::string& options = "") {
    const std::string base = testing::TempDir() + "save-faults";
    std::string command = fmt::format(
        "{} {} train {}/scenarios/runs/tiny-gpt.json --json {}", environment, program("orrery-run"),
        ORRERY_SOURCE_DIR,
        options.find("--steps") == std::string::npos ? options + " --steps 2" : options);
    for (const std::string& set :
         {std::string("layout.data_parallel=1"), std::string("layout.tensor_parallel=1"),
          std::string("layout.pipeline_parallel=1"), std::string("layout.global_batch_size=1"),
          std::string("training.sequence_length=8"), std::string("model.n_layer=1"),
          std::string("run.checkpoint.every_steps=1"), std::string("run.checkpoint.keep=1"),
          "run.checkpoint.path=" + path})
        command += " --set " + set;
    const int status = std::system(fmt::format("{} >{}.out 2>{}.err", command, base, base).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            content_of(base + ".out"), content_of(base + ".err")};
}

std::string shard_of(const std::string& path) {
    return content_of(path + "/rank-00000.safetensors");
}

std::int64_t last_published(const std::string& out) {
    std::int64_t step = 0;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
        if (const auto event = nlohmann::json::parse(line); event["event"] == "checkpoint")
            step = event["step"];
    return step;
}

// A folder in memory, where there is one: what is tested are the calls, not the disk.
std::string folder_in_memory() {
    const fs::path memory = "/dev/shm";
    std::error_code missing;
    return fs::is_directory(memory, missing) && access(memory.c_str(), W_OK) == 0
               ? (memory / fmt::format("orrery-save-faults-{}-", getpid())).string()
               : testing::TempDir();
}

class SystemCalls : public testing::TestWithParam<const char*> {};

TEST_P(SystemCalls, OfASaveMayFailOrBeTheLast) {
    if (sanitized()) GTEST_SKIP() << "AddressSanitizer must be loaded before what is preloaded";
    const std::string how = GetParam();
    const std::string sound = folder_in_memory() + "sound", path = folder_in_memory() + "struck";
    std::map<std::int64_t, std::string> trained;  // shards by step
    for (int step = 1; step <= kSavedSteps; ++step) {
        fs::remove_all(sound);
        ASSERT_EQ(train_saving(sound, "", fmt::format("--steps {}", step)).code, 0);
        trained[step] = shard_of(runtime::checkpoint_path(sound, step));
        ASSERT_GT(trained[step].size(), 1000U);
    }
    bool struck = true;
    int at = 0;
    for (; struck; ++at) {
        SCOPED_TRACE(fmt::format("call {}", at));
        ASSERT_LT(at, 100);
        fs::remove_all(path);
        const Outcome outcome =
            train_saving(path, fmt::format("FAILING_STORAGE_UNDER={} FAILING_STORAGE_AT={} "
                                           "FAILING_STORAGE_HOW={} LD_PRELOAD={}",
                                           path, at, how, program("libfailing_storage.so")));
        struck = outcome.code != 0;
        if (struck) {
            EXPECT_EQ(outcome.code, how == "kill" ? 137 : 8) << outcome.err;
        }
        if (struck && how != "kill") {
            EXPECT_THAT(outcome.err, HasSubstr("orrery train: " + path));
        }
        const auto found = runtime::checkpoints_in(path);
        EXPECT_TRUE(!found.empty() || last_published(outcome.out) == 0);
        for (const auto& each : found) {
            const runtime::CheckpointReader checkpoint(each.path);
            checkpoint.verify_shard(0);
            EXPECT_EQ(checkpoint.manifest().progress.step, each.step);
            EXPECT_EQ(shard_of(each.path), trained.at(each.step));
        }
        if (!found.empty()) {
            EXPECT_GE(found.front().step, last_published(outcome.out));
        }
        if (at % 5 != 0) continue;
        const Outcome rest = train_saving(path, "", "--resume");
        EXPECT_EQ(rest.code, 0) << rest.err;
        EXPECT_EQ(shard_of(runtime::checkpoint_path(path, kSavedSteps)), trained.at(kSavedSteps));
    }
    // Of each save: the shard's head and data, the manifest; fsync of both, of the unfinished
    // folder and of the whole, a rename; and once more for the folder that is new, and for what
    // goes.
    EXPECT_GE(at, kSavedSteps * (how == "ENOSPC" ? 3 : 8));
    fs::remove_all(sound);
    fs::remove_all(path);
}

INSTANTIATE_TEST_SUITE_P(All, SystemCalls, testing::Values("EIO", "ENOSPC", "kill"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace orrery::cli
