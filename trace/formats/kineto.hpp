// Traces of PyTorch's profiler (Kineto), *.pt.trace.json, plain or packed by gzip: Chrome's Trace
// Event JSON (the public document "Trace Event Format") with Kineto's categories and arguments:
//   {"ph": "X", "cat": "kernel", "name": "…", "pid": 0, "tid": 7, "ts": 12.345, "dur": 6.789,
//    "args": {"stream": 7, "correlation": 15, "External id": 3}}
// Times are microseconds, read as the decimal numbers that they are. Read in a stream: memory is
// that of the spans, not of the text.
#pragma once

#include <string>

#include "trace/recorded.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

// Throws TraceFileError (unreadable) with the byte of the text, or the event, at which it is wrong.
// `with_arguments`: what events say of shapes and messages is kept, too.
RecordedTrace read_kineto(const std::string& path, bool with_arguments = false);

// By the first bytes of its text: Trace Event JSON that is not one of ours. False where it cannot
// be read.
bool begins_as_kineto(const std::string& path);

}  // namespace orrery::trace
