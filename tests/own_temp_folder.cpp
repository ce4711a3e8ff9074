// A temporary folder for each test process (testing::TempDir), gone when it ends: tests that run at
// the same time never meet in a file.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace orrery {
namespace {

class OwnTempFolder {
  public:
    OwnTempFolder() {
        std::string path = std::filesystem::temp_directory_path() / "orrery-test-XXXXXX";
        if (mkdtemp(path.data()) == nullptr) std::abort();
        path_ = path;
        setenv("TEST_TMPDIR", path.c_str(), 1);
    }
    ~OwnTempFolder() {
        std::error_code ignored;
        if (getpid() == process_) std::filesystem::remove_all(path_, ignored);
    }
    OwnTempFolder(const OwnTempFolder&) = delete;
    OwnTempFolder& operator=(const OwnTempFolder&) = delete;

  private:
    std::filesystem::path path_;
    pid_t process_ = getpid();  // a fork that exits leaves the folder to its parent
};

const OwnTempFolder own_temp_folder;

}  // namespace
}  // namespace orrery
