#include "runtime/checkpoint/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_at(const std::string& path, const char* doing, int error) {
    throw StorageError(path + ": " + doing + ": " + std::generic_category().message(error));
}

class DiskFile final : public OutputFile {
  public:
    explicit DiskFile(std::string path) : path_(std::move(path)) {
        file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (file_ < 0) fail_at(path_, "cannot be created", errno);
    }
    ~DiskFile() override { ::close(file_); }

    void write(std::span<const std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t written = ::write(file_, bytes.data(), bytes.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) fail_at(path_, "cannot be written", errno);
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
    }

    void sync() override {
        if (::fsync(file_) != 0) fail_at(path_, "cannot be brought to the disk", errno);
    }

  private:
    std::string path_;
    int file_ = -1;
};

class Disk final : public Files {
  public:
    void make_folder(const std::string& path) override {
        std::error_code failed;
        if (fs::is_directory(path, failed)) return;
        const std::string parent = fs::absolute(path).lexically_normal().parent_path();
        if (!parent.empty() && parent != path) make_folder(parent);
        fs::create_directory(path, failed);
        if (failed) fail_at(path, "cannot be made a folder", failed.value());
        if (!parent.empty()) sync_folder(parent);
    }

    std::unique_ptr<OutputFile> create(const std::string& path) override {
        return std::make_unique<DiskFile>(path);
    }

    void rename(const std::string& from, const std::string& to) override {
        if (std::rename(from.c_str(), to.c_str()) != 0)
            fail_at(from, ("cannot be renamed to " + to).c_str(), errno);
    }

    void sync_folder(const std::string& path) override {
        const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0) fail_at(path, "cannot be opened", errno);
        const int error = ::fsync(folder) == 0 ? 0 : errno;
        ::close(folder);
        // A file system that knows no such thing for folders has nothing to be asked for.
        if (error != 0 && error != EINVAL) fail_at(path, "cannot be brought to the disk", error);
    }

    void remove_folder(const std::string& path) override {
        std::error_code failed;
        fs::remove_all(path, failed);
        if (failed) fail_at(path, "cannot be removed", failed.value());
    }
};

}  // namespace

Files& disk_files() {
    static Disk disk;
    return disk;
}

}  // namespace orrery::runtime
