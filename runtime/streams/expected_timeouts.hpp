// How long calls may take, from a trace that a simulation has predicted: a rank that hangs is told
// from one that is slow.
#pragma once

#include "runtime/streams/group_communicator.hpp"
#include "trace/trace.hpp"

namespace orrery::runtime {

// By label the longest that an op of communication takes there, from when its stream has come to
// it: what it waits for its slowest member is in it, as it is where the time is taken. Calls that
// the trace does not have may take as much longer than its whole step.
CallTimeouts expected_timeouts(const trace::Trace& trace);

}  // namespace orrery::runtime
