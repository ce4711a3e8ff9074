#include "trace/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>

#include "trace/trace_file_error.hpp"

namespace orrery::trace::native {
namespace {

constexpr int kAttempts = 100;                             // at a name that is free
constexpr std::size_t kWriteBytes = std::size_t{1} << 30;  // Linux writes at most 2 GiB at once

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
    // A rename would put a file in the place of /dev/null.
    struct stat status {};
    if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        throw TraceFileError(TraceFault::storage, path_,
                             "cannot be written: it exists and is not a regular file");
    for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
        partial_ = fmt::format("{}.partial-{}-{}", path_, ::getpid(), attempt);
        descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) fail("cannot be created");
}

AtomicFile::~AtomicFile() {
    close_descriptor();
    if (!partial_.empty()) ::unlink(partial_.c_str());
}

void AtomicFile::close_descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

void AtomicFile::fail(const char* doing) const {
    throw TraceFileError(TraceFault::storage, path_,
                         std::string(doing) + ": " + std::generic_category().message(errno));
}

void AtomicFile::append(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written =
            ::write(descriptor_, bytes.data(), std::min(bytes.size(), kWriteBytes));
        if (written < 0) {
            if (errno == EINTR) continue;
            fail("cannot be written");
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
        size_ += static_cast<std::uint64_t>(written);
    }
}

void AtomicFile::commit() {
    if (::fsync(descriptor_) != 0) fail("cannot be brought to the disk");
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("cannot be closed");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot be renamed into place");
    partial_.clear();
    sync_folder();
}

// So that the new name outlives a loss of power. Some file systems cannot, and say EINVAL.
void AtomicFile::sync_folder() const {
    const auto slash = path_.rfind('/');
    std::string folder = ".";
    if (slash != std::string::npos) folder = path_.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        if (errno == EACCES) return;  // a folder that may be written and not read
        fail("folder cannot be opened");
    }
    const int synced = ::fsync(descriptor);
    const int error = errno;
    ::close(descriptor);
    errno = error;
    if (synced != 0 && error != EINVAL) fail("folder cannot be brought to the disk");
}

}  // namespace orrery::trace::native

namespace orrery::trace {

void write_file(const std::string& path, std::string_view content) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) {
        native::AtomicFile file(path);
        file.append(content);
        return file.commit();
    }
    std::ofstream stream(path, std::ios::binary);
    if (!stream.write(content.data(), std::ssize(content)).flush())
        throw TraceFileError(TraceFault::storage, path, "cannot be written");
}

}  // namespace orrery::trace
