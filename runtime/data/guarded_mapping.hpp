// A file in memory that cannot be read any more, because somebody has cut it off or its disk fails,
// ends whoever touches it with SIGBUS. A mapping that is guarded reads as zeros from there on and
// remembers it, so that its reader can say what happened and the run ends as for any bad file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::runtime {

class GuardedMapping {
  public:
    // From here on a SIGBUS in these bytes is the mapping's own; elsewhere it is what it was before
    // the first one was made.
    explicit GuardedMapping(std::span<const std::byte> bytes);
    ~GuardedMapping();
    GuardedMapping(const GuardedMapping&) = delete;
    GuardedMapping& operator=(const GuardedMapping&) = delete;

    // The first byte that was asked for and could not be read; −1: none. Bytes that were read
    // before it is asked are sound where this is −1.
    std::int64_t lost_at() const;

    struct Slot;  // known to the handler

  private:
    Slot& slot_;
};

}  // namespace orrery::runtime
