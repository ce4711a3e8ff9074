// A trace as Chrome's Trace Event JSON, *.json, which chrome://tracing, Perfetto and most
// notebooks open (the public document "Trace Event Format"). docs/formats.md says which event means
// what. Several times the size of a .pftrace: for what reads nothing better.
#pragma once

#include <string>
#include <string_view>

#include "trace/formats/native.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// What a file begins with.
inline constexpr std::string_view kChromeBegin = "{\"orrery\":";

// As write_native: all or nothing, equal bytes for equal traces, `trace` is sound (ORRERY_CHECK).
// Throws TraceFileError (storage).
void write_chrome(const Trace& trace, const std::string& path);

// Of the content of a file that write_chrome wrote; gives back an equal trace, to the picosecond.
// Names, `ts` and `dur`, actions, arrows and counters are for viewers and are not read. Throws
// TraceFileError (unreadable); memory needed is bounded by a multiple of the content.
Trace read_chrome(std::string_view bytes, const std::string& path);

}  // namespace orrery::trace
