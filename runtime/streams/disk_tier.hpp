// The disk as a tier of a rank's memory: a file as large as the plan says, without a name, so that
// nothing is left of it whatever becomes of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/storage_error.hpp"

namespace orrery::runtime {

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
