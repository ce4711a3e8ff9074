// The native trace file, *.orrery: a Trace on disk, for what the simulator predicts and for what
// the runtime measures alike. docs/formats.md says what each byte means. Tracks are compressed
// apart from each other, so that a viewer can read one of a thousand.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "trace/trace.hpp"

namespace orrery::trace {

enum class TraceFault : std::uint8_t {
    unreadable,  // missing, truncated, corrupt, or of a version this program does not know
    storage      // could not be written: folder missing, disk full, permission
};

// The environment's fault, never the caller's. what() starts with the path; it gives the byte at
// which the file is wrong and what was expected there, or what the operating system said.
class TraceFileError : public std::runtime_error {
  public:
    TraceFileError(TraceFault fault, std::string path, const std::string& message)
        : std::runtime_error(path + ": " + message), fault_(fault), path_(std::move(path)) {}
    TraceFault fault() const { return fault_; }
    const std::string& path() const { return path_; }

  private:
    TraceFault fault_;
    std::string path_;
};

// Writes all or nothing: a file that stood at `path` stays until the new one is on the disk. Equal
// traces give equal bytes (with one version of zstd).
// `trace` is sound (ORRERY_CHECK): indices in range, vectors of a program of one length, as many
// events in a track as its program has ops, blocker < event, ready <= start <= end, and all times
// within ±2^61 ps (26 days).
void write_native(const Trace& trace, const std::string& path);

// A trace that is read is sound in the sense above, whatever the file holds. Memory needed is
// bounded by the size of the file (docs/formats.md).
Trace read_native(const std::string& path);

}  // namespace orrery::trace
