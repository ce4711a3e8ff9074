// A file that another program recorded, whichever: PyTorch's profiler, Nsight Systems, or
// whatever writes Chakra execution traces.
#pragma once

#include <string>
#include <vector>

#include "trace/recorded.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

// By what it begins with, Chakra's by the ending of its name; one trace a rank, several where a
// file holds several. What spans say of shapes and messages is kept. Throws TraceFileError
// (unreadable); of a report of Nsight Systems that is not exported it says how to.
std::vector<RecordedTrace> read_recorded(const std::string& path);

}  // namespace orrery::trace
