// A trace for the Perfetto viewer (ui.perfetto.dev), *.pftrace: protobuf of the TrackEvent kind, as
// the project's "Writing TrackEvent Protos Synthetically" describes. docs/formats.md says which
// track and annotation means what.
#pragma once

#include <string>
#include <string_view>

#include "trace/formats/native.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// The first event of a file, which holds the trace's tables.
inline constexpr std::string_view kDataEvent = "data of the trace";

// As write_native: all or nothing, equal bytes for equal traces, `trace` is sound (ORRERY_CHECK).
// Throws TraceFileError (storage).
void write_perfetto(const Trace& trace, const std::string& path);

// Of the content of a file that write_perfetto wrote; gives back an equal trace, to the picosecond.
// Slices' names and times in nanoseconds, actions, arrows and counters are for viewers and are not
// read. Throws TraceFileError (unreadable); memory needed is bounded by a multiple of the content.
Trace read_perfetto(std::string_view bytes, const std::string& path);

}  // namespace orrery::trace
