// What a run that goes on reads, each call of which fails with each error there is, and signals at
// every moment at which it touches its checkpoints: it goes on from the newest or says why not, and
// never begins again.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "tests/cli/storage_faults.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;
namespace fs = std::filesystem;

constexpr int kKept = 2;
const char* const kGoOn = "--resume --steps 3";

// A folder with two checkpoints, and the weights after one step more.
class Resumed : public testing::Test {
  protected:
    void SetUp() override {
        if (sanitized()) GTEST_SKIP() << "AddressSanitizer must be loaded before what is preloaded";
        ASSERT_EQ(train_saving(saved_, "", "", kKept).code, 0);
        begin();
        ASSERT_EQ(train_saving(path_, "", kGoOn, kKept).code, 0);
        last_ = shard_of(runtime::checkpoint_path(path_, 3));
        ASSERT_GT(last_.size(), 1000U);
    }
    void begin() const {
        fs::remove_all(path_);
        fs::copy(saved_, path_, fs::copy_options::recursive);
    }

    // As if nothing had happened.
    void expect_end(const Outcome& outcome) const {
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_TRUE(shard_of(runtime::checkpoint_path(path_, 3)) == last_);
    }

    // Calls until one is beyond the last; returns their number.
    int strike_each(StorageFault fault, const auto& way, const auto& judge) const {
        for (fault.at = 0; fault.at < 400; ++fault.at) {
            begin();
            fault.how = way(fault.at);
            const std::string mark = testing::TempDir() + "struck";
            fs::remove(mark);
            const Outcome outcome = train_saving(
                path_, "FAILING_STORAGE_MARK=" + mark + " " + fault.environment(), kGoOn, kKept);
            SCOPED_TRACE(fmt::format("{} {} with {}: {}", fault.of, fault.at, fault.how,
                                     fs::exists(mark) ? content_of(mark) : "not reached"));
            judge(outcome);
            if (!fs::exists(mark)) return fault.at;
        }
        ADD_FAILURE() << "more calls than there can be";
        return 0;
    }

    const FolderInMemory folder_;
    const std::string saved_ = folder_.file("saved"), path_ = folder_.file("resumed");
    std::string last_;
};

// Not ENOENT for the folder itself: that is how a run that has saved nothing begins.
TEST_F(Resumed, FromTheNewestOrNotAtAllWhateverCannotBeRead) {
    std::vector<int> errors = {EIO, EMFILE, ENOENT};
    if (std::getenv("ORRERY_EVERY_RUN") != nullptr)
        errors.insert(errors.end(), {EACCES, ESTALE, ENOMEM});
    for (const int error : errors) {
        SCOPED_TRACE(strerror(error));
        const std::string newest = runtime::checkpoint_path(path_, kSavedSteps);
        int refused = 0;
        const int calls = strike_each(
            {.under = error == ENOENT ? newest : path_, .of = "reads"},
            [&](int) { return std::to_string(error); },
            [&](const Outcome& outcome) {
                if (outcome.code == 0) return expect_end(outcome);
                ++refused;
                EXPECT_THAT(outcome.code, AnyOf(5, 8)) << outcome.err;
                EXPECT_THAT(outcome.err, HasSubstr("orrery train: " + path_));
                EXPECT_THAT(steps_of("step", outcome.out), AnyOf(ElementsAre(), ElementsAre(3)));
                EXPECT_TRUE(fs::exists(newest + "/manifest.json")) << "the newest is still there";
            });
        EXPECT_GT(refused, 4) << "what is not needed may fail, not all";
        EXPECT_GT(calls, 4) << "manifest and shard are opened, looked at and mapped";
    }
}

// At each call of loading and of saving; a signal at a step is GuardedRun's. Until it loads there
// is nothing to save, and a signal ends it as it ends any program.
TEST_F(Resumed, AndEndsInOrderWheneverItIsAskedTo) {
    constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    for (const char* const of : {"reads", "writes"}) {
        int asked = 0;
        strike_each(
            {.under = path_, .of = of},
            [&](int at) {
                asked = kSignals[static_cast<std::size_t>(at) % kSignals.size()];
                return fmt::format("signal {}", asked);
            },
            [&](const Outcome& outcome) {
                if (outcome.code == 0) return expect_end(outcome);
                if (outcome.code != 130) {
                    EXPECT_EQ(outcome.code, 128 + asked) << outcome.err;
                    EXPECT_THAT(steps_of("resume", outcome.out), ElementsAre());
                    EXPECT_THAT(of, StrEq("reads"));
                }
                expect_end(train_saving(path_, "", kGoOn, kKept));
            });
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
