// The disk as a tier of a rank's memory: a file as large as the plan says, without a name, so that
// nothing is left of it whatever becomes of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace orrery::runtime {

// A folder that is missing or closed, a disk that is full or fails; names the path.
class StorageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class DiskTier {
  public:
    // The file lies in `folder`, and its bytes are taken at once; all are 0 at first. Throws
    // StorageError, as all others do.
    DiskTier(std::string folder, std::int64_t bytes);
    ~DiskTier();
    DiskTier(const DiskTier&) = delete;
    DiskTier& operator=(const DiskTier&) = delete;

    void read(std::int64_t offset, std::span<std::byte> into) const;
    void write(std::int64_t offset, std::span<const std::byte> from);

  private:
    [[noreturn]] void fail(const std::string& doing, int error) const;

    std::string folder_;
    int file_ = -1;
};

}  // namespace orrery::runtime
