// Ranks as threads of this process, each with a team of the host's cores.
#pragma once

#include "runtime/comm/threads/thread_world.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/flight/flight_records.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::runtime {

class CpuBackend final : public Backend {
  public:
    // `timeout`: ThreadWorldOptions.
    // `records`: what ranks leave when the run ends badly; null: nothing.
    explicit CpuBackend(const CpuOptions& options,
                        std::chrono::milliseconds timeout = std::chrono::minutes(10),
                        FlightRecords* records = nullptr)
        : options_(options), timeout_(timeout), records_(records) {}

    void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) override;
    int threads_per_rank() const override { return options_.threads; }

  private:
    CpuOptions options_;
    std::chrono::milliseconds timeout_;
    FlightRecords* records_;
};

}  // namespace orrery::runtime
