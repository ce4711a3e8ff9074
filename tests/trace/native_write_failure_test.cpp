// What a failing disk leaves behind: nothing, or the file that was there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"
#include "trace/formats/native.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::EndsWith;
using testing::StartsWith;

std::string refusal_to_write(const std::string& path) {
    try {
        write_native(pipeline_trace({}), path);
    } catch (const TraceFileError& error) {
        EXPECT_EQ(error.fault(), TraceFault::storage);
        EXPECT_THAT(error.what(), StartsWith(path + ": "));
        return error.what();
    }
    return "";
}

// No file of this process may grow beyond this: what a full disk looks like.
class SizeLimit {
  public:
    explicit SizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~SizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    SizeLimit(const SizeLimit&) = delete;
    SizeLimit& operator=(const SizeLimit&) = delete;

  private:
    void (*handler_)(int);
    rlimit before_{};
};

TEST(NativeWriteFailure, NamesAFolderThatIsMissing) {
    const TestFolder folder;
    EXPECT_THAT(refusal_to_write(folder.file("none/t.orrery")),
                EndsWith("cannot be created: No such file or directory"));
    EXPECT_EQ(folder.entries(), 0U);
}

TEST(NativeWriteFailure, LeavesNothingWhenTheDiskIsFull) {
    const TestFolder folder;
    std::string why;
    {
        const SizeLimit limit(100);
        why = refusal_to_write(folder.file("t.orrery"));
    }
    EXPECT_THAT(why, EndsWith("cannot be written: File too large"));
    EXPECT_EQ(folder.entries(), 0U);
}

TEST(NativeWriteFailure, LeavesTheFileThatWasThere) {
    const TestFolder folder;
    const std::string path = folder.file("t.orrery");
    put_file(path, "precious");
    {
        const SizeLimit limit(100);
        EXPECT_NE(refusal_to_write(path), "");
    }
    EXPECT_EQ(bytes_of_file(path), "precious");
    EXPECT_EQ(folder.entries(), 1U);
}

TEST(NativeWriteFailure, LeavesNothingInAFolderThatIsReadOnly) {
    const TestFolder folder;
    ::chmod(folder.path().c_str(), 0555);
    constexpr uid_t kNobody = 65534;
    const bool root = ::geteuid() == 0;  // whom no permission stops
    ASSERT_EQ(root ? ::seteuid(kNobody) : 0, 0);
    const std::string why = refusal_to_write(folder.file("t.orrery"));
    ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
    EXPECT_THAT(why, EndsWith("cannot be created: Permission denied"));
    EXPECT_EQ(folder.entries(), 0U);
    ::chmod(folder.path().c_str(), 0755);
}

TEST(NativeWriteFailure, DoesNotPutAFileInThePlaceOfADeviceOrFolder) {
    const TestFolder folder;
    EXPECT_THAT(refusal_to_write("/dev/null"), EndsWith("it exists and is not a regular file"));
    EXPECT_THAT(refusal_to_write(folder.path().string()),
                EndsWith("it exists and is not a regular file"));
    EXPECT_EQ(folder.entries(), 0U);
}

TEST(NativeWriteFailure, StopsAtATraceThatIsNotSound) {
    const TestFolder folder;
    Trace trace = pipeline_trace({});
    trace.tracks[0].events.change([](Event& event, std::size_t i) {
        if (i == 3) event.blocker = 3;
    });
    EXPECT_DEATH(write_native(trace, folder.file("t.orrery")), "blocked by one that comes later");
}

TEST(NativeWriteFailure, WritesInTheCurrentFolderWithoutASlash) {
    const TestFolder folder;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    write_native(pipeline_trace({}), "t.orrery");
    std::filesystem::current_path(before);
    EXPECT_EQ(folder.entries(), 1U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
