// The native trace file, *.orrery: a Trace on disk, for what the simulator predicts and for what
// the runtime measures alike. docs/formats.md says what each byte means. Tracks are compressed
// apart from each other, so that a viewer can read one of a thousand.
#pragma once

#include <string>

#include "trace/trace.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

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
