// A small run that keeps its weights, and whose system calls fail as a test says
// (program/failing_storage.cpp).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {

struct StorageFault {
    std::string under;          // the folder whose files and folders count
    std::string of = "writes";  // or "reads"
    int at = 0;                 // number of the call
    std::string how = "kill";   // or "full", "signal N", or an errno's number

    std::string environment() const {
        return fmt::format(
            "FAILING_STORAGE_UNDER={} FAILING_STORAGE_OF={} FAILING_STORAGE_AT={} "
            "FAILING_STORAGE_HOW='{}' LD_PRELOAD={}",
            under, of, at, how, program("libfailing_storage.so"));
    }
};

constexpr int kSavedSteps = 2;

// Two steps of one rank, each saved, of which `keep` checkpoints stay. Killed: 128 and the signal.
inline Outcome train_saving(const std::string& path, const std::string& environment,
                            const std::string& options = "", int keep = 1) {
    const std::string base = testing::TempDir() + "storage-faults";
    std::string command = fmt::format(
        "{} {} train {}/scenarios/runs/tiny-gpt.json --json {}", environment, program("orrery-run"),
        ORRERY_SOURCE_DIR,
        options.find("--steps") == std::string::npos ? options + " --steps 2" : options);
    for (const std::string& set :
         {std::string("layout.data_parallel=1"), std::string("layout.tensor_parallel=1"),
          std::string("layout.pipeline_parallel=1"), std::string("layout.global_batch_size=1"),
          std::string("training.sequence_length=8"), std::string("model.n_layer=1"),
          std::string("run.checkpoint.every_steps=1"), fmt::format("run.checkpoint.keep={}", keep),
          "run.checkpoint.path=" + path})
        command += " --set " + set;
    const int status = std::system(fmt::format("{} >{}.out 2>{}.err", command, base, base).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            content_of(base + ".out"), content_of(base + ".err")};
}

inline std::string shard_of(const std::string& checkpoint) {
    return content_of(checkpoint + "/rank-00000.safetensors");
}

// Of `out`, the steps of the events of this name.
inline std::vector<std::int64_t> steps_of(const std::string& event_name, const std::string& out) {
    std::vector<std::int64_t> steps;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
        if (const auto event = nlohmann::json::parse(line); event["event"] == event_name)
            steps.push_back(event["step"]);
    return steps;
}

// A folder for the time of a test, in memory where there is one: what is tested are the calls, not
// the disk.
class FolderInMemory {
  public:
    FolderInMemory() { std::filesystem::create_directories(path_); }
    ~FolderInMemory() { std::filesystem::remove_all(path_); }
    FolderInMemory(const FolderInMemory&) = delete;
    FolderInMemory& operator=(const FolderInMemory&) = delete;

    std::string file(const std::string& name) const { return path_ / name; }

  private:
    static std::filesystem::path parent() {
        const std::filesystem::path memory = "/dev/shm";
        std::error_code missing;
        return std::filesystem::is_directory(memory, missing) && access(memory.c_str(), W_OK) == 0
                   ? memory
                   : std::filesystem::path(testing::TempDir());
    }

    const std::filesystem::path path_ = parent() / fmt::format("orrery-storage-{}", getpid());
};

}  // namespace orrery::cli
