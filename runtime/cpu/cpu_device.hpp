// The CPU as a device: the arena is host memory, the compute stream is the thread that calls run()
// (and its team), all communication streams are one thread, which takes their ops in issue order.
// That order is the same on every rank as far as groups are concerned (plan_faults), so that
// blocking calls cannot wait for each other in a ring. Copies between tiers of memory are a third
// thread: the host's arena lies behind the device's, the disk's is a file.
//
// Where steps run on into one another, run() returns when its own thread is through: the others go
// from step to step by themselves. A fourth is the rank's server then, with the communication of
// data-parallel ranks, where the communicator has a line beside it: else those who wait for a slow
// rank's gradients would keep messages of tensor and pipeline parallelism waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.hpp"
#include "runtime/streams/arena_guard.hpp"
#include "runtime/cpu/cpu_kernels.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/streams/disk_tier.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/flight/flight_recorder.hpp"

namespace orrery::runtime {

struct CpuOptions {
    int threads = 1;                   // of the rank's team, for compute
    bool poison = false;               // memory that changes hands is filled with NaN first
    bool guard = false;                // ops run one at a time, and must keep to their tensors
    std::uint64_t delay_seed = 0;      // not 0: ops start after random delays, to shake out races
    bool alone = false;                // in its process, whose memory is the device's then
    std::int64_t clock_offset_ns = 0;  // added to the times of ops
};

class CpuDevice final : public Device {
  public:
    // The program, the scenario, the communicator and the recorder, where there is one, must
    // outlive the device.
    CpuDevice(const BoundProgram& program, const plan::Scenario& scenario,
              Communicator& communicator, const CpuOptions& options,
              FlightRecorder* recorder = nullptr);
    ~CpuDevice() override;

    void run(const StepInputs& inputs) override;
    void await_all_but(std::int64_t steps) override;
    void when_ended(std::function<void(const StepInputs&)> tell) override;
    void validate() override;
    std::optional<std::int64_t> bytes_in_use() const override;
    std::span<const OpTime> times() const override { return times_; }
    std::optional<double> computed_s() const override;
    void read(std::int64_t offset, std::span<std::byte> into) const override;
    void write(std::int64_t offset, std::span<const std::byte> from) override;

  private:
    struct MemoryDeleter {
        void operator()(std::byte* memory) const;
    };

    // The threads of a rank: who calls run(), and those that follow it.
    enum Lane : std::uint8_t { compute, communication, copies, servers };
    static constexpr std::size_t kLanes = 4;

    // A program's op ids by lane, in issue order.
    struct Work {
        Work(const BoundProgram& bound, bool apart);  // servers have a thread of their own
        const BoundProgram& program;
        std::array<std::vector<std::uint32_t>, kLanes> ops;
    };

    // Some of them in a row, which all lanes go through together, or where steps run on each for
    // itself.
    struct Stretch {
        const Work* work = nullptr;
        std::uint32_t first = 0, end = 0;
        const StepInputs* inputs = nullptr;
        plan::StreamCounts before{};  // what its waits count from, modulo 2^32
    };

    struct Follower {
        Lane lane = communication;
        std::atomic<std::uint32_t> done{0};  // stretches that it has ended
        std::thread thread;
    };

    bool runs_on() const { return turns_.size() > 1; }
    bool ends_steps(Lane lane) const { return lane == (server_ ? servers : communication); }
    void serve(Follower& follower);
    void run_on(const StepInputs& inputs);
    void perform(const Stretch& stretch);
    void begin();
    void await_all_but(const Follower& follower, std::uint32_t stretches) const;
    bool validated_as_taken();
    bool amended() const;
    void walk(const Stretch& stretch, Lane lane);
    void end_step(const Stretch& stretch);
    void wait_for(const Stretch& stretch, const plan::Wait& wait);
    void perform(const Stretch& stretch, Lane lane, std::uint32_t id);
    void perform_alone(const Stretch& stretch, Lane lane, std::uint32_t id);
    void poison(const BoundOp& bound);
    void run_op(const Stretch& stretch, Lane lane, std::uint32_t id);
    void copy(const BoundOp& bound);
    void fail(std::exception_ptr cause);

    const BoundProgram& program_;
    Communicator& communicator_;
    FlightRecorder* recorder_;
    CpuOptions options_;
    std::unique_ptr<std::byte, MemoryDeleter> memory_;
    std::byte* arena_;  // in the memory, between zones where there is a guard
    std::unique_ptr<ArenaGuard> guard_;
    std::mutex guard_mutex_;
    CpuKernels compute_kernels_;
    CpuKernels communication_kernels_{1};  // sums on communication streams
    CpuKernels server_kernels_{1};
    Performer performer_;
    std::optional<Performer> server_;  // with a thread and a line of its own
    std::unique_ptr<DiskTier> disk_;   // null where the plan keeps nothing there
    std::vector<Work> turns_;          // of a step, by turn
    std::optional<Work> amendment_;
    double clip_norm_;
    std::vector<Stretch> stretches_;     // what is being performed, by number modulo their count
    std::vector<StepInputs> under_way_;  // of steps that run on, likewise
    std::function<void(const StepInputs&)> tell_ended_;  // empty: nobody asks
    std::array<Follower, kLanes - 1> followers_;
    std::vector<OpTime> times_;
    std::array<std::atomic<std::uint32_t>, plan::kStreams> ended_{};
    std::atomic<bool> failed_{false};
    std::mutex cause_mutex_;
    std::exception_ptr cause_;
    const StepInputs* inputs_ = nullptr;
    StepInputs taken_;          // of the step that the next one validates, without its tokens …
    bool to_validate_ = false;  // … if there is one
    std::atomic<std::uint32_t> begun_{0};  // stretches; the other threads follow
    std::atomic<bool> leaving_{false};
};

}  // namespace orrery::runtime
