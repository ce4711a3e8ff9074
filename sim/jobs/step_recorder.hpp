// What one run of a job's machine says of its step, whether it ran alone or among others.
#pragma once

#include <array>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/machine.hpp"
#include "trace/forward_accounts.hpp"

namespace orrery::sim {

struct StepRecord {
    Picoseconds length = 0;                           // of the step
    Picoseconds run = 0;                              // until the job's next run begins
    std::array<double, trace::kAccounts> accounts{};  // mean over ranks, seconds

    double exposed_s() const;  // communication that nothing hides, of all groups
};

class StepRecorder : public EngineListener {
  public:
    // `empty`: trace_to_fill of the machine. Both must outlive it.
    StepRecorder(const Machine& machine, const trace::Trace& empty);

    void ended(TrackId track, std::uint32_t op, std::uint32_t number,
               const trace::Event& event) override;
    StepRecord finish();  // once the run is over

  private:
    const Machine& machine_;
    const trace::Trace& empty_;
    trace::ForwardAccounts accounts_;
    // Where the window ends before the run does, its events tell where.
    EngineResult kept_;
};

}  // namespace orrery::sim
