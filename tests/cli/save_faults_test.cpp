// The system calls of a save, each of which fails or is the last of its process
// (program/failing_storage.cpp): whatever is left, the newest checkpoint that is complete is what
// was trained, to the last bit.
#include <cerrno>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "tests/cli/storage_faults.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::int64_t last_published(const std::string& out) {
    const std::vector<std::int64_t> steps = steps_of("checkpoint", out);
    return steps.empty() ? 0 : steps.back();
}

struct Way {
    const char* name;
    std::string how;
};

class SystemCalls : public testing::TestWithParam<Way> {};

TEST_P(SystemCalls, OfASaveMayFailOrBeTheLast) {
    if (sanitized()) GTEST_SKIP() << "AddressSanitizer must be loaded before what is preloaded";
    const std::string how = GetParam().how;
    const FolderInMemory folder;
    const std::string sound = folder.file("sound"), path = folder.file("struck");
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
        const StorageFault fault{.under = path, .at = at, .how = how};
        const Outcome outcome = train_saving(path, fault.environment());
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
    EXPECT_GE(at, kSavedSteps * (how == "full" ? 3 : 8));
}

INSTANTIATE_TEST_SUITE_P(All, SystemCalls,
                         testing::Values(Way{"EIO", std::to_string(EIO)}, Way{"ENOSPC", "full"},
                                         Way{"kill", "kill"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
