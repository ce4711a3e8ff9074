// What a library of collectives (NCCL) must do for GroupCommunicator: one communicator of all
// ranks, those of some that are split from it, and calls on these that are put into streams. No
// header of a device shows here; a fake in the tests records what it is told. Handles are the
// driver's. Calls come one at a time, of the thread that issues or, while that one is away, of its
// watch (issue_watch.hpp), and throw CollectiveError with what the library said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "runtime/comm/communicator.hpp"
#include "runtime/streams/stream.hpp"

namespace orrery::runtime {

class CollectiveError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Blocks, each on an SM, that one communicator's kernels have; 0: as many as the library likes.
struct BlockBounds {
    std::int64_t min = 0, max = 0;

    bool operator==(const BlockBounds&) const = default;
};

class CollectiveDriver {
  public:
    using Communicator = void*;
    enum class State : std::uint8_t { ready, in_progress, failed };

    CollectiveDriver() = default;
    virtual ~CollectiveDriver() = default;
    CollectiveDriver(const CollectiveDriver&) = delete;
    CollectiveDriver& operator=(const CollectiveDriver&) = delete;

    // How many of so many members name the communicator of all, each with an id of its own: others
    // ask the namer of their part of them who their neighbours are.
    virtual std::int64_t namers(std::int64_t members) const = 0;
    // A new id, always of the same size.
    virtual std::vector<std::byte> unique_id() = 0;

    // Begins to make the communicator of all, named by the ids of its namers one after another. It
    // is of use once its state is ready: to be split, for it takes no calls, and needs few
    // resources.
    virtual Communicator begin(std::span<const std::byte> ids, std::int64_t member,
                               std::int64_t members) = 0;
    // A part of those that a communicator of all is split into.
    struct Part {
        std::int64_t number = 0;  // the same for its members, and no others'
        std::int64_t member = 0, members = 1;
    };
    // Begins to split it, in which all members take part, in one order; none: this one is in no
    // part, and has null. Once the state of `all` is ready again what was split off is ready, too,
    // and has resources of its own.
    virtual Communicator split(Communicator all, const std::optional<Part>& part,
                               const BlockBounds& blocks) = 0;
    // Also of the calls made on it since: one that is in progress takes no other.
    virtual State state(Communicator communicator) = 0;
    // Why it has failed.
    virtual std::string fault(Communicator communicator) = 0;
    // Makes memory of the device known to a communicator before any call names it; done once the
    // communicator is ready again. `symmetric`: all members ask for it at once, of as many bytes of
    // memory in which what their calls name has the same places. Else each may by itself.
    using Registration = void*;
    virtual Registration register_memory(Communicator communicator, std::byte* memory,
                                         std::int64_t bytes, bool symmetric) = 0;
    // Of one that is done: whether the library has taken it. One that is symmetric it may not.
    virtual bool taken(Registration registration) = 0;
    // Before the memory is freed, or the communicator ended; one that is aborted forgets by itself.
    virtual void deregister(Communicator communicator, Registration registration) = 0;

    // Both free it: end() once its calls have ended on all members, abort() at any time.
    virtual void end(Communicator communicator) = 0;
    virtual void abort(Communicator communicator) = 0;

    // Calls between the two are issued as one.
    virtual void group_start() = 0;
    virtual void group_end() = 0;

    // In elements of dtype; data may be read and written in place as Communicator says.
    virtual void all_reduce(Communicator communicator, plan::DType dtype, void* data,
                            std::int64_t elements, Reduction reduction, Stream stream) = 0;
    virtual void all_gather(Communicator communicator, plan::DType dtype, const void* mine,
                            void* all, std::int64_t each, Stream stream) = 0;
    virtual void reduce_scatter(Communicator communicator, plan::DType dtype, const void* all,
                                void* mine, std::int64_t each, Stream stream) = 0;
    virtual void broadcast(Communicator communicator, plan::DType dtype, void* data,
                           std::int64_t elements, std::int64_t root, Stream stream) = 0;
    // Within a group one may send to oneself.
    virtual void send(Communicator communicator, const void* data, std::int64_t bytes,
                      std::int64_t member, Stream stream) = 0;
    virtual void receive(Communicator communicator, void* data, std::int64_t bytes,
                         std::int64_t member, Stream stream) = 0;

    // Within the device's memory.
    virtual void copy(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
};

}  // namespace orrery::runtime
