#include "runtime/streams/disk_tier.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {

DiskTier::DiskTier(std::string folder, std::int64_t bytes) : folder_(std::move(folder)) {
    if (folder_.empty()) folder_ = ".";
    std::string name = folder_ + "/orrery-offload-XXXXXX";
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0) fail("a file for what is offloaded cannot be made", errno);
    ::unlink(name.c_str());
    const int error = bytes == 0 ? 0 : ::posix_fallocate(file_, 0, bytes);
    if (error == 0) return;
    ::close(std::exchange(file_, -1));
    fail(fmt::format("no room for the {} bytes that are offloaded", bytes), error);
}

DiskTier::~DiskTier() {
    if (file_ >= 0) ::close(file_);
}

void DiskTier::read(std::int64_t offset, std::span<std::byte> into) const {
    for (std::size_t done = 0; done < into.size();) {
        const ssize_t bytes = ::pread(file_, into.data() + done, into.size() - done,
                                      offset + static_cast<std::int64_t>(done));
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) fail("what was offloaded cannot be read", errno);
        if (bytes == 0) fail("the file of what was offloaded has been cut short", 0);
        done += static_cast<std::size_t>(bytes);
    }
}

void DiskTier::write(std::int64_t offset, std::span<const std::byte> from) {
    for (std::size_t done = 0; done < from.size();) {
        const ssize_t bytes = ::pwrite(file_, from.data() + done, from.size() - done,
                                       offset + static_cast<std::int64_t>(done));
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) fail("what is offloaded cannot be written", errno);
        done += static_cast<std::size_t>(bytes);
    }
}

void DiskTier::fail(const std::string& doing, int error) const {
    throw StorageError(error == 0
                           ? fmt::format("{}: {}", folder_, doing)
                           : fmt::format("{}: {}: {}", folder_, doing, std::strerror(error)));
}

}  // namespace orrery::runtime
