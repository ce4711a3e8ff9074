// Ranks as processes, each with a team of its node's cores: this process is one of them.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "runtime/comm/processes/process_world.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/flight/flight_records.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::runtime {

struct ProcessBackendOptions {
    CpuOptions cpu;
    CallTimeouts timeouts;
    Carrier carrier = Carrier::best;
    FlightRecords* records = nullptr;  // null: none are written
    // All ranks have come.
    std::function<void(ProcessWorld&)> connected;
    // The run cannot go on, and why, with the rank, its host, what it was in and whom it waits for:
    // once, as soon as it is known, from any thread. A launcher may leave no more time.
    std::function<void(const std::string& message)> failed;
    // The run has ended elsewhere for this reason, and this rank, which is busy with something that
    // does not communicate, should have left it by now: whoever is told ends the process.
    std::function<void(const std::string& reason)> overdue;
    // Now and then while ranks meet: for whom this one waits.
    std::function<void(const std::string& line)> waiting;
};

class ProcessBackend final : public Backend {
  public:
    ProcessBackend(Launch launch, ProcessBackendOptions options)
        : launch_(std::move(launch)), options_(std::move(options)) {}

    // The mesh has a rank for each process of the launch.
    void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) override;
    int threads_per_rank() const override { return options_.cpu.threads; }

  private:
    void live(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body);
    void tell(const std::string& message);
    void ended(ProcessWorld& world, const std::string& reason);

    Launch launch_;
    ProcessBackendOptions options_;
    std::atomic<bool> told_{false};
};

}  // namespace orrery::runtime
