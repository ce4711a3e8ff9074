// What must have ended before an op of a block may start. Streams are in order, so a dependency on
// another stream is a count: so many of the block's ops on that stream have ended. This is what an
// executor turns into events, and what the simulator waits for.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/ir/block.hpp"

namespace orrery::plan {

using StreamCounts = std::array<std::uint32_t, kStreams>;

inline void join(StreamCounts& into, const StreamCounts& other) {
    for (std::size_t s = 0; s < kStreams; ++s)
        if (into[s] < other[s]) into[s] = other[s];
}

// Last ops of each stream that read and wrote a piece of memory, as counts.
struct Accesses {
    StreamCounts reads{};
    StreamCounts writes{};
};

// An op touches a tensor that lives outside the block's scratch.
struct OutsideAccess {
    std::int32_t op = 0;
    TensorId tensor = 0;
    bool writes = false;
};

struct BlockOrder {
    // Per op: how many of the block's ops on each other stream must have ended first.
    std::vector<StreamCounts> waits;
    StreamCounts ops_per_stream{};
    std::vector<OutsideAccess> outside;  // in op order
    std::vector<bool> touches_scratch;   // per op
};

// From tensors (read after write, write after read, write after write), `after` and reuse edges.
BlockOrder order_of(const Block& block);

inline std::size_t index_of(Stream stream) {
    return static_cast<std::size_t>(stream);
}

}  // namespace orrery::plan
