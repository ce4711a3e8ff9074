// Watches over a run of orrery train, and tells its output what is wrong with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/train_run.hpp"
#include "runtime/train/stall_watch.hpp"
#include "trace/trace.hpp"

namespace orrery::cli {

class TrainHealth {
  public:
    // `expected`: a predicted step, null where there is none. All must outlive the object.
    TrainHealth(const TrainRun& run, const trace::Trace* expected, TrainOutput& output);

    // On rank 0's thread.
    void met(const std::vector<std::string>& hosts);
    void stepped(const runtime::StepReport& step);
    void saved(const runtime::CheckpointReport& report);

  private:
    const TrainRun& run_;
    const trace::Trace* expected_;
    TrainOutput& output_;
    runtime::LossWatch losses_;
    std::optional<runtime::StragglerWatch> stragglers_;
    runtime::StallWatch stalls_;  // last: its thread uses the others
};

// By rank, the seconds that a predicted step computes; 0 where the trace does not say.
std::vector<double> expected_compute_s(const plan::Layout& layout, const trace::Trace& trace);

}  // namespace orrery::cli
