// A checkpoint folder has one writer, for as long as that lives and no longer.
#include "runtime/checkpoint/folder_lock.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/storage_error.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FolderLocks : public testing::Test {
  protected:
    FolderLocks() { fs::remove_all(folder_); }
    ~FolderLocks() override { fs::remove_all(folder_); }

    std::string folder_ = testing::TempDir() + "locks/inner";
};

template <typename Act>
std::string storage_error_of(Act act) {
    try {
        act();
    } catch (const StorageError& error) {
        return error.what();
    }
    return "";
}

TEST_F(FolderLocks, TheSecondIsRefusedWithTheFirstByName) {
    const FolderLock first(folder_, kRunLock, "0123456789abcdef");
    EXPECT_TRUE(first.is_exclusive());
    EXPECT_THAT(storage_error_of([&] { FolderLock(folder_, kRunLock, new_run_id()); }),
                AllOf(HasSubstr(folder_), HasSubstr(fmt::format("process {} on ", getpid())),
                      HasSubstr("run 0123456789abcdef"), HasSubstr("run.checkpoint.path")));
    EXPECT_THAT(storage_error_of([&] { refuse_if_locked(folder_, kRunLock); }),
                HasSubstr("0123456789abcdef"));
    EXPECT_EQ(storage_error_of([&] { FolderLock(folder_, kSupervisorLock, new_run_id()); }), "");
    EXPECT_EQ(storage_error_of([&] { first.require_still_held(); }), "");
}

TEST_F(FolderLocks, ItsEndFreesIt) {
    { const FolderLock first(folder_, kRunLock, new_run_id()); }
    EXPECT_EQ(storage_error_of([&] { refuse_if_locked(folder_, kRunLock); }), "");
    EXPECT_EQ(storage_error_of([&] { FolderLock(folder_, kRunLock, new_run_id()); }), "");
}

TEST_F(FolderLocks, AHolderThatIsKilledDoesNotKeepIt) {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
        const FolderLock held(folder_, kRunLock, new_run_id());
        const bool said = write(ready[1], "x", 1) == 1;
        while (said)
            pause();
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_THAT(storage_error_of([&] { FolderLock(folder_, kRunLock, new_run_id()); }),
                HasSubstr(fmt::format("process {} on ", child)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(storage_error_of([&] { FolderLock(folder_, kRunLock, new_run_id()); }), "");
    for (const int end : ready)
        close(end);
}

TEST_F(FolderLocks, AFolderThatWentOrWasTakenIsNoLongerHeld) {
    const FolderLock held(folder_, kRunLock, "0123456789abcdef");
    std::ofstream(folder_ + "/run.lock") << "process 1 on other, run 1\n";
    EXPECT_THAT(storage_error_of([&] { held.require_still_held(); }),
                HasSubstr("process 1 on other"));
    fs::rename(folder_, folder_ + "-moved");
    EXPECT_THAT(storage_error_of([&] { held.require_still_held(); }), HasSubstr("removed"));
    fs::create_directory(folder_);
    std::ofstream(folder_ + "/run.lock") << "";
    EXPECT_THAT(storage_error_of([&] { held.require_still_held(); }), HasSubstr("replaced"));
    fs::remove_all(folder_ + "-moved");
}

TEST_F(FolderLocks, WhatStandsInTheFileReachesATerminalAsPlainText) {
    const FolderLock held(folder_, kRunLock, new_run_id());
    std::ofstream(folder_ + "/run.lock") << "\x1b[2Jowner\a\n";
    EXPECT_THAT(storage_error_of([&] { refuse_if_locked(folder_, kRunLock); }),
                HasSubstr("?[2Jowner?"));
}

TEST_F(FolderLocks, AFolderThatCannotBeMadeIsSaidAtOnce) {
    const std::string file = testing::TempDir() + "a-file";
    std::ofstream(file) << "x";
    for (const std::string& path : {file, file + "/below", std::string("/dev/null"),
                                    testing::TempDir() + std::string(300, 'n')})
        EXPECT_THAT(storage_error_of([&] { FolderLock(path, kRunLock, new_run_id()); }),
                    HasSubstr(path.substr(0, 20)))
            << path;
    fs::remove(file);
}

TEST(RunIds, AreSixteenDigitsAndDiffer) {
    const std::string one = new_run_id(), other = new_run_id();
    EXPECT_EQ(one.size(), 16U);
    EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(one, other);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
