// A temporary folder for each test (testing::TempDir), gone when the process ends: tests that run
// at the same time, or one after the other in a process, never meet in a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace orrery {
namespace {

// What a program has before its first test, and what suites share, is in the folder around them.
class OwnTempFolder : public testing::EmptyTestEventListener {
  public:
    OwnTempFolder() {
        std::string path = std::filesystem::temp_directory_path() / "orrery-test-XXXXXX";
        if (mkdtemp(path.data()) == nullptr) std::abort();
        path_ = path;
        setenv("TEST_TMPDIR", path.c_str(), 1);
        testing::UnitTest::GetInstance()->listeners().Append(this);
    }
    ~OwnTempFolder() override {
        testing::UnitTest::GetInstance()->listeners().Release(this);
        std::error_code ignored;
        if (getpid() == process_) std::filesystem::remove_all(path_, ignored);
    }
    OwnTempFolder(const OwnTempFolder&) = delete;
    OwnTempFolder& operator=(const OwnTempFolder&) = delete;

    void OnTestStart(const testing::TestInfo&) override {
        const std::filesystem::path path = path_ / std::to_string(++tests_);
        std::filesystem::create_directory(path);
        setenv("TEST_TMPDIR", path.c_str(), 1);
    }
    void OnTestEnd(const testing::TestInfo&) override { setenv("TEST_TMPDIR", path_.c_str(), 1); }

  private:
    std::filesystem::path path_;
    int tests_ = 0;
    pid_t process_ = getpid();  // a fork that exits leaves the folder to its parent
};

OwnTempFolder own_temp_folder;

}  // namespace
}  // namespace orrery
