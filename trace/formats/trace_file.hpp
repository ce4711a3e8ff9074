// Trace files of every format: which one a name asks for, which one a file is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trace/formats/native.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

enum class TraceFormat : std::uint8_t { native, perfetto, chrome };

// The endings that format_of_name knows, for messages.
inline constexpr std::string_view kTraceEndings = ".orrery, .pftrace or .json";

// By the ending; nullopt for another one, or for an ending with nothing before it.
std::optional<TraceFormat> format_of_name(const std::string& path);

// By content, whatever the name. Throws TraceFileError (unreadable). A trace that is read equals
// the one that was written, in each format.
Trace read_trace(const std::string& path);

// By the first bytes of the file at `path`: whether it is a trace of ours in this format, whole or
// not. False where it cannot be read.
bool begins_as_trace(const std::string& path, TraceFormat format);

// By the ending of `path`, which format_of_name knows (ORRERY_CHECK). All or nothing; throws
// TraceFileError (storage).
void write_trace(const Trace& trace, const std::string& path);

}  // namespace orrery::trace
