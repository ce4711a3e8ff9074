// Ranks as threads of this process, each with a team of the host's cores.
#pragma once

#include "runtime/comm/thread_world.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::runtime {

class CpuBackend final : public Backend {
  public:
    // `timeout`: ThreadWorldOptions.
    explicit CpuBackend(const CpuOptions& options,
                        std::chrono::milliseconds timeout = std::chrono::minutes(10))
        : options_(options), timeout_(timeout) {}

    void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) override;
    int threads_per_rank() const override { return options_.threads; }

  private:
    CpuOptions options_;
    std::chrono::milliseconds timeout_;
};

}  // namespace orrery::runtime
