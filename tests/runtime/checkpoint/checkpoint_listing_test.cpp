// What is seen of a checkpoint folder, whatever keeps it from being seen; and what is removed of
// it.
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CheckpointListing : public testing::Test {
  protected:
    CheckpointListing() {
        fs::remove_all(path_);
        for (const int step : {5, 20, 10}) {
            fs::create_directories(checkpoint_path(path_, step));
            std::ofstream(checkpoint_path(path_, step) + "/" + kManifestFile) << "{}";
        }
        fs::permissions(path_, fs::perms::all);
        const fs::path test = fs::path(testing::TempDir()).parent_path();  // ends with a slash
        for (const fs::path& folder : {test, test.parent_path()})
            fs::permissions(folder, fs::perms::others_exec, fs::perm_options::add);
    }
    ~CheckpointListing() override { fs::remove_all(path_); }

    // "20 10 5", "10 5 without 20", or the error; as a user who is not root.
    std::string seen_by_nobody() const {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            constexpr uid_t kNobody = 65534;
            if (getuid() == 0 &&
                (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0))
                _exit(1);
            const std::string text = seen();
            _exit(write(ends[1], text.data(), text.size()) < 0);
        }
        close(ends[1]);
        std::string text(4096, '\0');
        text.resize(static_cast<std::size_t>(
            std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
        close(ends[0]);
        waitpid(child, nullptr, 0);
        return text;
    }

    std::string seen() const {
        std::string complete, without;
        try {
            for (const FoundCheckpoint& each : named_checkpoints(path_))
                (each.has_manifest ? complete : without) += std::to_string(each.step) + ' ';
        } catch (const DataError& error) {
            return error.what();
        }
        return complete + (without.empty() ? "" : "without " + without);
    }

    std::string path_ = testing::TempDir() + "listed";
};

TEST_F(CheckpointListing, NewestFirstAndNoneWhereNothingIs) {
    EXPECT_EQ(seen(), "20 10 5 ");
    path_ += "-not-there";
    EXPECT_EQ(seen(), "");
}

TEST_F(CheckpointListing, OneWithoutManifestIsThereAndNotComplete) {
    fs::remove(checkpoint_path(path_, 20) + "/" + kManifestFile);
    EXPECT_EQ(seen(), "10 5 without 20 ");
    EXPECT_EQ(checkpoints_in(path_).front().step, 10);
}

TEST_F(CheckpointListing, WhatCannotBeSeenIsAnErrorAndNotAnAbsence) {
    EXPECT_EQ(seen_by_nobody(), "20 10 5 ");
    fs::permissions(checkpoint_path(path_, 20), fs::perms::none);
    EXPECT_THAT(seen_by_nobody(), HasSubstr("step-00000020/manifest.json: cannot be looked at: "
                                            "Permission denied"));
    fs::permissions(checkpoint_path(path_, 20), fs::perms::all);
    fs::permissions(path_, fs::perms::owner_all | fs::perms::others_write | fs::perms::others_exec);
    if (getuid() == 0) {
        EXPECT_THAT(seen_by_nobody(), HasSubstr("listed: cannot be listed: Permission denied"));
    }
    const fs::path file = path_ + "/file";
    std::ofstream(file) << "x";
    const std::string folder = path_;
    path_ = file.string();
    EXPECT_THAT(seen(), HasSubstr("cannot be listed: Not a directory"));
    path_ = folder + "/loop";
    fs::create_symlink("loop", path_);
    EXPECT_THAT(seen(), HasSubstr("cannot be listed: Too many levels of symbolic links"));
    path_ = folder;
}

// Only what a save of ours left: what people call their copies stays.
TEST_F(CheckpointListing, RemovesItsOwnLeftoversAlone) {
    const CheckpointPlace place{disk_files(), path_, "0123456789abcdef"};
    begin_checkpoint(place, 30);
    fs::create_directory(path_ + "/.removing-step-00000005-00000000000000ff");
    const std::vector<std::string> of_others = {"step-00000020.old",
                                                "step-00000020.tmp",
                                                ".writing-step-00000030",
                                                "step-00000030-bak",
                                                ".writing-notes-0123456789abcdef",
                                                ".removing-step-7-mine"};
    for (const std::string& name : of_others)
        fs::create_directory(path_ + "/" + name);
    const auto entries = [&] {
        return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
    };
    EXPECT_EQ(entries(), 3 + 2 + std::ssize(of_others));
    remove_unfinished(disk_files(), path_);
    EXPECT_EQ(entries(), 3 + std::ssize(of_others));
    for (const std::string& name : of_others)
        EXPECT_TRUE(fs::exists(path_ + "/" + name)) << name;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
