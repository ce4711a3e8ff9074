// How long each stream has an op in progress. A pure view of a trace.
#pragma once

#include <array>

#include "trace/trace.hpp"

namespace orrery::trace {

// Within the trace's window, by plan::Stream, in seconds; mean over ranks (tracks weighted by the
// ranks they stand for). Ops that overlap on one stream count once.
std::array<double, plan::kStreams> mean_busy(const Trace& trace);

}  // namespace orrery::trace
