// Memory-bound kernels by kind, timed where they are asked for: by the ops of a real plan, with its
// shapes, element types and places. The trainer performs a step of small models on a device that
// does every such op again and again, with a flushed cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "calib/measure/device_timer.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::measure {

using MakeDriver = std::function<std::unique_ptr<runtime::StreamDriver>()>;

// One rank. What is reported as an op's time is the median of its samples; ops that are not
// memory-bound are performed once, so that the others find their operands. A step's results are
// not those of training: ops that add to what is there do so each time.
class SamplingBackend final : public runtime::Backend {
  public:
    // All must outlive the object.
    SamplingBackend(const MakeDriver& make_driver, std::int64_t cache_bytes,
                    const DeviceSampling& sampling, runtime::GpuMonitor* monitor,
                    SampleCounts& counts)
        : make_driver_(make_driver),
          cache_bytes_(cache_bytes),
          sampling_(sampling),
          monitor_(monitor),
          counts_(counts) {}

    void run_ranks(const plan::Mesh& mesh,
                   const std::function<void(runtime::RankSeat&)>& body) override;
    int threads_per_rank() const override;

  private:
    const MakeDriver& make_driver_;
    std::int64_t cache_bytes_;
    const DeviceSampling& sampling_;
    runtime::GpuMonitor* monitor_;
    SampleCounts& counts_;
};

}  // namespace orrery::measure
