// Reports of NVIDIA Nsight Systems, as `nsys export --type sqlite` writes them: one table a kind of
// activity, times in nanoseconds, names by number in StringIds, who launched what by correlationId
// ("SQLite Export Schema Reference" of its documentation). Schemas differ by version, and tables
// are there only where they have rows: each is asked for its columns.
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET   spans of a stream of a device
//   CUPTI_ACTIVITY_KIND_GRAPH_TRACE                CUDA graphs of which only the whole was traced
//   CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER           calls of a thread
//   NVTX_EVENTS                                    ranges of a thread; those of PyTorch's emit_nvtx
//                                                  are operators, with the sizes of their inputs
//   TARGET_INFO_GPU, TARGET_INFO_CUDA_DEVICE       names of devices
#pragma once

#include <string>
#include <vector>

#include "trace/recorded.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

// A trace for each device of each process that ran kernels there, by the device's number, then by
// the process's: with a process a device, as launchers start them, that is the order of the ranks
// of a node. Throws TraceFileError (unreadable) with what the file lacks.
std::vector<RecordedTrace> read_nsys(const std::string& path);

// A report as nsys itself keeps it, by the ending of its name; it has to be exported first.
bool is_nsys_report_name(const std::string& path);

}  // namespace orrery::trace
