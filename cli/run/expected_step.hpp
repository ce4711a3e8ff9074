// A predicted step to hold a run against (train --expect): how long its calls and its computation
// should take. That of another plan would give every call the wrong patience, so it is refused.
#pragma once

#include <stdexcept>
#include <string>

#include "cli/run/train_run.hpp"
#include "trace/trace.hpp"

namespace orrery::cli {

class ExpectedError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Throws trace::TraceError for what cannot be read, and ExpectedError with the keys that differ for
// a step that is not this run's.
trace::Trace expected_step(const std::string& path, const TrainRun& run);

}  // namespace orrery::cli
