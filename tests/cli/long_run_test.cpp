// A run of many steps has, at its end, what it had after few: memory, descriptors, threads.
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/running_program.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

struct Held {
    std::int64_t resident_kib = 0, threads = 0, descriptors = 0;
};

Held held_by(pid_t process) {
    Held held;
    const std::string folder = fmt::format("/proc/{}", process);
    std::ifstream status(folder + "/status");
    for (std::string key; status >> key;) {
        if (key == "VmRSS:") status >> held.resident_kib;
        if (key == "Threads:") status >> held.threads;
    }
    for ([[maybe_unused]] const auto& each : fs::directory_iterator(folder + "/fd"))
        held.descriptors += 1;
    return held;
}

TEST(LongRun, HoldsNoMoreAfterManyStepsThanAfterFew) {
    if (sanitized()) GTEST_SKIP() << "AddressSanitizer keeps what is freed";
    const std::string folder = testing::TempDir() + "long";
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::ofstream(folder + "/data.txt") << std::string(5000, 'a') << std::string(5000, 'b');
    std::vector<std::string> words = {
        "train", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json", "--json",
        "--steps", "24000"};
    for (const std::string& set :
         {std::string("layout.data_parallel=1"), std::string("layout.tensor_parallel=1"),
          std::string("layout.pipeline_parallel=1"), std::string("layout.global_batch_size=1"),
          std::string("training.sequence_length=16"), std::string("model.n_embd=16"),
          std::string("model.n_head=2"), std::string("model.n_layer=1"),
          "run.data=" + folder + "/data.txt", "run.checkpoint.path=" + folder + "/saved",
          std::string("run.checkpoint.every_steps=1000")})
        words.insert(words.end(), {"--set", set});
    RunningProgram run("orrery-run", words);
    std::map<std::int64_t, Held> held;
    std::string error;
    while (const auto event = run.next_event()) {
        if ((*event)["event"] == "error") error = (*event)["message"];
        if ((*event)["event"] != "step") continue;
        const std::int64_t step = (*event)["step"];
        if (step == 3500 || step == 23500) held[step] = held_by(run.process());
    }
    EXPECT_EQ(run.exit_code(), 0) << error;
    ASSERT_EQ(held.size(), 2u);
    const Held &few = held[3500], &many = held[23500];
    // 20,000 steps; a word kept of each would be 156 KiB, a report of each 3 MiB.
    EXPECT_LE(many.resident_kib, few.resident_kib + 1024);
    // A checkpoint may be under way.
    EXPECT_LE(many.threads, few.threads + 1);
    EXPECT_LE(many.descriptors, few.descriptors + 1);
    fs::remove_all(folder);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
