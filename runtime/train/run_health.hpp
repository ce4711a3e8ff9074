// Watches over a run, and says what is wrong with it (health.hpp), on rank 0.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/stall_watch.hpp"
#include "runtime/train/trainer.hpp"
#include "trace/trace.hpp"

namespace orrery::runtime {

struct WatchedRanks {
    // The time of an op says how many others its core had, and not how fast its rank is.
    bool take_turns = false;
    const trace::Trace* expected = nullptr;  // a predicted step; null: there is none
};

class RunHealth {
  public:
    // `said` is called on the threads of stepped() and of StallWatch. All must outlive the object.
    RunHealth(const plan::Scenario& scenario, const WatchedRanks& ranks,
              std::function<void(const HealthNotice&)> said);

    // On rank 0's thread.
    void met(const std::vector<std::string>& hosts);
    void stepped(const StepReport& step);
    void saved(const CheckpointReport& report);

  private:
    const plan::Scenario& scenario_;
    WatchedRanks ranks_;
    std::function<void(const HealthNotice&)> said_;
    LossWatch losses_;
    std::optional<StragglerWatch> stragglers_;
    StallWatch stalls_;  // last: its thread uses the others
};

// By rank, the seconds that a predicted step computes; 0 where the trace does not say.
std::vector<double> expected_compute_s(const plan::Layout& layout, const trace::Trace& trace);

}  // namespace orrery::runtime
