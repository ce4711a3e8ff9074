// Dumps of the NCCL flight recorder of PyTorch (torch/csrc/distributed/c10d/FlightRecorder.hpp,
// version 2), a file a rank: the JSON form, plain or packed by gzip. What PyTorch writes at a
// timeout is the same as a pickle, which Python turns into it.
#pragma once

#include <string>

#include "trace/flight_record.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

// The rank is the file's "rank", or the last number of its name (nccl_trace_rank_3). Throws
// TraceFileError (unreadable): with the byte or the place in the JSON; of a pickle with a command
// that makes JSON of it.
FlightDump read_flight_dump(const std::string& path);

}  // namespace orrery::trace
