// The memory of a rank's device in all its tiers: the device's arena, host memory behind it, a file
// behind that (BoundProgram: addresses run on from one to the next), and copies between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/executor/bound_program.hpp"
#include "runtime/streams/disk_tier.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

class MemoryTiers {
  public:
    // Both must outlive the object. `margin`: so many bytes that are nobody's stand on both sides
    // of the arena and what is behind it, which then are one piece: for a driver that shares the
    // host's memory. `offload_path`: the folder of the file, where the plan has one. Throws
    // StorageError.
    MemoryTiers(const BoundProgram& program, StreamDriver& driver, std::int64_t margin,
                const std::string& offload_path);

    std::byte* arena() const { return arena_; }
    // In the device's or the host's memory.
    std::byte* at(std::int64_t address) const;

    // The op is a copy between tiers; its stream makes it.
    void copy(const BoundOp& bound, Stream stream) const;

    // Device::read, Device::write.
    void read(std::int64_t address, std::span<std::byte> into) const;
    void write(std::int64_t address, std::span<const std::byte> from);

  private:
    bool on_disk(std::int64_t address) const { return address >= program_.memory_bytes(); }
    std::int64_t place_on_disk(std::int64_t address) const {
        return address - program_.memory_bytes();
    }
    void require_operands_on_device() const;

    const BoundProgram& program_;
    StreamDriver& driver_;
    std::byte* arena_ = nullptr;
    std::byte* host_ = nullptr;
    std::shared_ptr<DiskTier> disk_;  // null where the plan keeps nothing there
};

}  // namespace orrery::runtime
