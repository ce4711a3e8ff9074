#include "runtime/checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "runtime/checkpoint/files.hpp"

namespace orrery::runtime {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing, int error) {
    throw StorageError(path + ": " + doing + ": " + std::generic_category().message(error));
}

std::string file_in(const std::string& folder, const char* name) {
    return (std::filesystem::path(folder) / name).string();
}

std::string own_host() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string text_in(int file) {
    std::array<char, 512> text{};
    const ssize_t bytes = ::pread(file, text.data(), text.size(), 0);
    return bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes)) : std::string();
}

// For a terminal, whatever stands in the file.
std::string owner_in(int file) {
    std::string line = text_in(file);
    line.resize(std::min(line.find('\n'), line.size()));
    std::replace_if(
        line.begin(), line.end(),
        [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
    return line.empty() ? "another run" : line;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& owner) {
    throw StorageError(
        fmt::format("{}: is written by {}. One run at a time writes checkpoints into a folder: end "
                    "that one, or give this one another run.checkpoint.path",
                    folder, owner));
}

struct flock whole_file() {
    struct flock all {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    return all;
}

bool says_no_locks_here(int error) {
    return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

int open_lock(const std::string& folder, const std::string& path) {
    disk_files().make_folder(folder);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) fail(path, "cannot be written", errno);
    return file;
}

}  // namespace

std::string new_run_id() {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
        throw StorageError("the system gives no random numbers: " +
                           std::generic_category().message(errno));
    return fmt::format("{:016x}", number);
}

FolderLock::Descriptor::~Descriptor() {
    ::close(number);
}

FolderLock::FolderLock(const std::string& folder, const char* name, const std::string& run_id)
    : path_(file_in(folder, name)),
      owner_(fmt::format("process {} on {}, run {}, since {:%Y-%m-%d %H:%M:%S} UTC\n", ::getpid(),
                         own_host(), run_id, fmt::gmtime(std::time(nullptr)))),
      file_(open_lock(folder, path_)) {
    struct flock all = whole_file();
    if (::fcntl(file_.number, F_OFD_SETLK, &all) != 0) {
        const int error = errno;
        if (error == EAGAIN || error == EACCES) refuse(folder, owner_in(file_.number));
        if (!says_no_locks_here(error)) fail(path_, "cannot be locked", error);
        exclusive_ = false;
    }
    const auto bytes = static_cast<ssize_t>(owner_.size());
    const ssize_t written = ::pwrite(file_.number, owner_.data(), owner_.size(), 0);
    if (written != bytes) fail(path_, "cannot be written", written < 0 ? errno : ENOSPC);
    if (::ftruncate(file_.number, bytes) != 0) fail(path_, "cannot be written", errno);
}

void FolderLock::require_still_held() const {
    struct stat held {
    }, there{};
    if (::fstat(file_.number, &held) != 0) fail(path_, "cannot be looked at", errno);
    if (::stat(path_.c_str(), &there) != 0 || held.st_ino != there.st_ino ||
        held.st_dev != there.st_dev)
        throw StorageError(path_ +
                           ": is no longer this run's: its folder was removed or replaced since");
    if (text_in(file_.number) != owner_)
        throw StorageError(path_ + ": now names another run: " + owner_in(file_.number));
}

void refuse_if_locked(const std::string& folder, const char* name) {
    const int file = ::open(file_in(folder, name).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return;  // nobody has held it, or whoever takes it says why that fails
    struct flock all = whole_file();
    const bool held = ::fcntl(file, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
    const std::string owner = owner_in(file);
    ::close(file);
    if (held) refuse(folder, owner);
}

}  // namespace orrery::runtime
