// Constants of the native trace file that writer and reader share; docs/formats.md explains them.
// Everything here is on people's disks: a value never changes its meaning. Internal to trace/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/formats/trace_version.hpp"
#include "trace/trace.hpp"

namespace orrery::trace::native {

inline constexpr std::string_view kHeadMagic = "\x89ORRERY\n";
inline constexpr std::string_view kEndMagic = "ORRY.END";
inline constexpr std::uint32_t kVersion = kTraceVersion;
inline constexpr std::string_view kFormat = "orrery trace";

inline constexpr std::size_t kHeadBytes = 16;
inline constexpr std::size_t kFooterBytes = 32;
inline constexpr std::size_t kEntryBytes = 32;  // of the directory

// Four letters, little-endian: the first is the lowest byte.
constexpr std::uint32_t letters(std::string_view four) {
    std::uint32_t code = 0;
    for (std::size_t i = 4; i-- > 0;)
        code = code << 8 | static_cast<std::uint8_t>(four[i]);
    return code;
}

enum class FrameKind : std::uint32_t {
    header = letters("HEAD"),
    scenario = letters("SCEN"),
    facts = letters("FACT"),
    ops = letters("OPS_"),
    program = letters("PROG"),
    track = letters("TRAK")
};

struct FrameEntry {
    FrameKind kind = FrameKind::header;
    std::uint32_t index = 0;  // of the program or track
    std::uint64_t offset = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t raw_bytes = 0;
};

// A trace that repeats itself compresses without limit, and so does a hostile file. The writer pads
// the file so that this always holds, the reader refuses a file where it does not, before it
// allocates: all frames unpacked <= kUnpackedFactor × file + kUnpackedSlack.
inline constexpr std::uint64_t kUnpackedFactor = 64;
inline constexpr std::uint64_t kUnpackedSlack = 1 << 20;
inline constexpr std::uint64_t kLeastFrameBytes = 13;  // an empty zstd frame with its checksum
inline constexpr std::uint64_t kHeaderLimitBytes = 1 << 16;

// Codes of Event::blocker; an op of this rank is kBlockerOp + event − blocker.
inline constexpr std::uint64_t kBlockerNothing = 0;
inline constexpr std::uint64_t kBlockerHost = 1;
inline constexpr std::uint64_t kBlockerOp = 1;

// What the times of an event are counted from: writer and reader predict alike and store the
// difference, which in a simulated trace is mostly 0. Both call `reset` for each track.
class EventPrediction {
  public:
    explicit EventPrediction(std::size_t ops) : last_duration_(ops, 0) {}

    // The event became ready when its blocker ended, or some time after the host issued another.
    Picoseconds ready(const std::vector<Event>& events, std::int32_t blocker) const {
        if (blocker >= 0) return events[static_cast<std::size_t>(blocker)].end;
        return blocker == kHost ? last_host_ : 0;
    }
    // It takes as long as the same op took the last time.
    Picoseconds duration(std::uint32_t op) const { return last_duration_[op]; }

    void saw(const Event& event, std::uint32_t op) {
        if (event.blocker == kHost) last_host_ = event.ready;
        last_duration_[op] = event.end - event.start;
    }
    void reset(const ProgramOps& program) {
        last_host_ = 0;
        for (const std::uint32_t op : program.op)
            last_duration_[op] = 0;
    }

  private:
    std::vector<Picoseconds> last_duration_;  // by op
    Picoseconds last_host_ = 0;
};

}  // namespace orrery::trace::native
