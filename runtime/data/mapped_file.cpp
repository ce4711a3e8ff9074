#include "runtime/data/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw DataError(path, what + (": " + std::generic_category().message(errno)));
}

// Closed at the end of the constructor: a mapping outlives its descriptor.
struct Descriptor {
    int number;
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
    // Not to wait for the other end of a pipe.
    const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat status {};
    if (file.number < 0 || ::fstat(file.number, &status) != 0) fail(path_, "cannot be opened");
    if (!S_ISREG(status.st_mode)) throw DataError(path_, "is not a regular file");
    opened_ = state_of(status);
    if (status.st_size == 0) return;  // nothing to map
    const auto size = static_cast<std::size_t>(status.st_size);
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
    if (start == MAP_FAILED) fail(path_, "cannot be mapped into memory");
    bytes_ = {static_cast<const std::byte*>(start), size};
    guard_.emplace(bytes_);
}

void MappedFile::require_read() const {
    if (!guard_ || guard_->lost_at() < 0) return;
    struct stat status {};
    std::string now = "its disk may fail";
    if (::stat(path_.c_str(), &status) == 0 && state_of(status).bytes < opened_.bytes)
        now = fmt::format("it had {} bytes when it was opened and has {} now", opened_.bytes,
                          status.st_size);
    throw DataError(path_,
                    fmt::format("cannot be read from byte {} on: {}", guard_->lost_at(), now));
}

MappedFile::State MappedFile::state_of(const struct stat& status) {
    return {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
            status.st_size};
}

bool MappedFile::may_have_changed() const {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0) return false;
    const State now = state_of(status);
    return now.device == opened_.device && now.number == opened_.number && now != opened_;
}

MappedFile::~MappedFile() {
    guard_.reset();  // before another mapping may lie there
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace orrery::runtime
