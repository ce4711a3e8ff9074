// What the engine remembers while it runs: of each track only the first op of each stream that has
// not ended, whatever came before. Internal to the engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/op_index.hpp"

namespace orrery::sim {

enum class Kind : std::uint8_t { start, end, transfer_end, flow_end };

// Of the head of a stream; of a flow, which then stands in the place of the track. One word, made
// in a register: fields that are written one by one and copied together have each event wait for
// its own stores.
class Happening {
  public:
    // `generation`: of a compute op or a flow whose end has been moved. An end that was moved is
    // still in the queue for less than an op's time, in which no 2²⁶ others end.
    Happening(Kind kind, std::size_t stream, TrackId track, std::uint32_t generation = 0)
        : what_(static_cast<std::uint64_t>(generation) << 38 | std::uint64_t{stream} << 34 |
                static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(track)) {}

    Kind kind() const { return static_cast<Kind>(what_ >> 32 & 3); }
    std::uint8_t stream() const { return static_cast<std::uint8_t>(what_ >> 34 & 15); }
    TrackId track() const { return static_cast<TrackId>(what_ & 0xFFFFFFFF); }
    bool is_of(std::uint32_t generation) const { return ((what_ >> 38 ^ generation) << 38) == 0; }

  private:
    static_assert(plan::kStreams <= 16);
    std::uint64_t what_;
};

constexpr std::uint8_t kOwnStream = 0xFF;  // before every other, where several ended last

struct StreamState {
    trace::Event head;                 // so far: of the first op that has not ended
    const StreamOp* next = nullptr;    // that op; null: all have ended
    Picoseconds* issued_at = nullptr;  // ring: when the host issued op i of the stream, at i & mask
    Picoseconds last_end = 0;
    std::int32_t last = trace::kNothing;  // of what the head follows, the op that ended last
    std::uint32_t mask = 0;
    std::uint32_t position = 0;         // ops of this stream that have ended
    std::uint32_t issued = 0;           // ops of this stream that the host has issued
    std::uint16_t waits = 0;            // of the head, that are not over
    std::uint8_t last_on = kOwnStream;  // stream of `last`
    bool busy = false;                  // the head has started, or has a time to start at
};

// The exchange that a stream of transfers is in, if any.
constexpr std::size_t kTransferStreams = 2;
struct Exchanging {
    const plan::Step* step = nullptr;
    std::uint8_t stream = 0;
    std::uint32_t outstanding = 0;
    std::uint64_t begun = 0;  // bit per transfer
};

struct TrackState {
    std::array<StreamState, plan::kStreams> streams;
    // [s][t]: so many ops of stream s end the wait of the head of stream t; 0: it does not wait.
    std::array<std::array<std::uint32_t, plan::kStreams>, plan::kStreams> awaited{};
    std::array<std::uint32_t, plan::kStreams> awaiting{};  // [s]: a bit for each t that waits
    const IndexedProgram* program = nullptr;
    const Picoseconds* durations = nullptr;
    const std::vector<OpTime>* times = nullptr;
    const std::vector<double>* factors = nullptr;
    const Uneven* uneven = nullptr;
    std::int64_t slowdown = 0;  // permille, of its kernels while it communicates
    std::uint32_t issued = 0;   // by the host
    std::uint32_t ended = 0;
    std::uint32_t readings = 0;   // of counts, that the host has done
    std::uint32_t exchanges = 0;  // for whose end it has waited
    Picoseconds host_clock = 0;
    std::array<Exchanging, kTransferStreams> exchanging;
    // The compute op in progress, for slow-down under communication.
    std::uint32_t communicating = 0;
    std::int64_t work_left = 0;  // in units of which one picosecond does pace() many
    Picoseconds work_since = 0;
    std::uint32_t generation = 0;
};

struct GroupState {
    std::uint32_t arrived = 0;
    Picoseconds duration = 0;  // of the member for which it takes longest
    std::uint32_t first_op_number = 0;
};

}  // namespace orrery::sim
