// The CPU as a device: the arena is host memory, the compute stream is the thread that calls run()
// (and its team), all communication streams are one thread, which takes their ops in issue order.
// That order is the same on every rank as far as groups are concerned (plan_faults), so that
// blocking calls cannot wait for each other in a ring. Copies between tiers of memory are a third
// thread: the host's arena lies behind the device's, the disk's is a file.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.hpp"
#include "runtime/cpu/arena_guard.hpp"
#include "runtime/cpu/cpu_kernels.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/executor/disk_tier.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {

struct CpuOptions {
    int threads = 1;               // of the rank's team, for compute
    bool poison = false;           // memory that changes hands is filled with NaN first
    bool guard = false;            // ops run one at a time, and must keep to their tensors
    std::uint64_t delay_seed = 0;  // not 0: ops start after random delays, to shake out races
};

class CpuDevice final : public Device {
  public:
    // The program, the scenario and the communicator must outlive the device.
    CpuDevice(const BoundProgram& program, const plan::Scenario& scenario,
              Communicator& communicator, const CpuOptions& options);
    ~CpuDevice() override;

    void run(const StepInputs& inputs) override;
    std::span<const OpTime> times() const override { return times_; }
    void read(std::int64_t offset, std::span<std::byte> into) const override;
    void write(std::int64_t offset, std::span<const std::byte> from) override;

  private:
    struct MemoryDeleter {
        void operator()(std::byte* memory) const;
    };

    // A thread that goes through its ops of each step.
    struct Follower {
        std::vector<std::uint32_t> ops;      // ids, in issue order
        std::atomic<std::uint32_t> done{0};  // steps that it has ended
        std::thread thread;
    };

    void serve(Follower& follower);
    void walk(const std::vector<std::uint32_t>& ops);
    void wait_for(const plan::Wait& wait);
    void perform(std::uint32_t id);
    void perform_alone(std::uint32_t id);
    void poison(const BoundOp& bound);
    void run_op(std::uint32_t id);
    void copy(const BoundOp& bound);
    void fail(std::exception_ptr cause);

    const BoundProgram& program_;
    Communicator& communicator_;
    CpuOptions options_;
    std::unique_ptr<std::byte, MemoryDeleter> memory_;
    std::byte* arena_;  // in the memory, between zones where there is a guard
    std::unique_ptr<ArenaGuard> guard_;
    std::mutex guard_mutex_;
    CpuKernels compute_kernels_;
    CpuKernels communication_kernels_{1};  // sums on communication streams
    Performer performer_;
    std::unique_ptr<DiskTier> disk_;      // null where the plan keeps nothing there
    std::vector<std::uint32_t> compute_;  // op ids, in issue order
    Follower communication_;
    Follower copies_;
    std::vector<OpTime> times_;
    std::array<std::atomic<std::uint32_t>, plan::kStreams> ended_{};
    std::atomic<bool> failed_{false};
    std::mutex cause_mutex_;
    std::exception_ptr cause_;
    const StepInputs* inputs_ = nullptr;
    std::atomic<std::uint32_t> step_{0};  // steps begun; the other threads follow
    std::atomic<bool> leaving_{false};
};

}  // namespace orrery::runtime
