// The one device: a rank's linked program walked over a driver's queues. The plan's streams are the
// driver's, the plan's edges are marks in them. One thread issues a whole step, in the plan's
// order, and then waits; nothing of what it does in between depends on a value that was computed,
// but for how many rows go to experts, for which it waits where they are exchanged and multiplied.
// What a device does besides is a part of its own: memory in tiers (memory_tiers.hpp), steps that
// are validated later (post_validation.hpp), steps that run on into one another (step_ends.hpp),
// and what stands around ops (op_watch.hpp): poison, guard, delays.
//
// Where the communicator has a line beside it, servers and the communication of data-parallel ranks
// have a stream and that line to themselves once steps run on: else those who wait for a slow
// rank's gradients would keep messages of tensor and pipeline parallelism waiting.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/device.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/flight/flight_recorder.hpp"
#include "runtime/streams/issued_ops.hpp"
#include "runtime/streams/memory_tiers.hpp"
#include "runtime/streams/op_watch.hpp"
#include "runtime/streams/post_validation.hpp"
#include "runtime/streams/step_ends.hpp"
#include "runtime/streams/stream_communicator.hpp"
#include "runtime/streams/stream_driver.hpp"
#include "runtime/streams/stream_schedule.hpp"

namespace orrery::runtime {

class ArenaGuard;

struct StreamOptions {
    // Two timed events around every op; without, times() are the step's. Where work is performed in
    // turn, ops are always timed, by the host's clock.
    bool time_ops = false;
    bool poison = false;               // memory that changes hands is filled with NaN first
    bool guard = false;                // ops run one at a time, and must keep to their tensors: for
                                       // drivers that share the host's memory
    std::uint64_t delay_seed = 0;      // not 0: ops start after random delays
    std::int64_t clock_offset_ns = 0;  // added to the times of ops
    // What repeats itself within a layer's pass is launched at once (repeated_work.hpp), by drivers
    // that keep work; ops that are timed or looked at one by one are launched so.
    bool keep_layers = false;
    std::string offload_path = {};  // the folder of what is kept on disk
};

class StreamDevice final : public Device, private StepParts {
  public:
    // All must outlive the device. Calls of the communicator are put into streams, and so are ops,
    // which `issued` is told of (null: nobody) …
    StreamDevice(const BoundProgram& program, StreamCommunicator& communicator,
                 StreamDriver& driver, const StreamOptions& options, IssuedOps* issued = nullptr);
    // … or are made in their turn by work of a driver that performs it so. `recorder`: null: none.
    StreamDevice(const BoundProgram& program, Communicator& communicator, StreamDriver& driver,
                 const StreamOptions& options, FlightRecorder* recorder);
    ~StreamDevice() override;

    // What all calls of its communicator name is in there.
    std::byte* arena() const { return memory_.arena(); }

    // Before the first step: has the kernels prepare what the programs of all turns will launch.
    void prepare();

    void run(const StepInputs& inputs) override;
    void await_all_but(std::int64_t steps) override;
    void when_ended(std::function<void(const StepInputs&)> tell) override;
    void validate() override;
    std::span<const OpTime> times() const override { return times_; }
    std::optional<double> computed_s() const override;
    ExpertCounts take_expert_counts() override { return performer_->take_expert_counts(); }
    std::optional<std::int64_t> bytes_in_use() const override { return driver_.bytes_in_use(); }
    void read(std::int64_t offset, std::span<std::byte> into) const override;
    void write(std::int64_t offset, std::span<const std::byte> from) override;

  private:
    StreamDevice(const BoundProgram& program, Communicator& communicator,
                 StreamCommunicator* queued, StreamDriver& driver, const StreamOptions& options,
                 FlightRecorder* recorder, IssuedOps* issued);

    enum class Timing : std::uint8_t { of_steps, by_marks, by_clock };

    // A stream of the driver, and who performs the ops of the plan's streams that go into it.
    struct Queue {
        Stream stream;
        std::unique_ptr<Kernels> kernels;
        Performer* performer = nullptr;
    };

    class Walk;  // of a program, for one turn

    bool runs_on() const { return program_.turns() > 1; }
    bool may_use_line_beside() const;
    StreamUse use_of(plan::Stream stream) const;
    void add_queue(plan::Stream stream);
    void make_performers();
    void make_walks();
    void make_repeated_work();
    void make_watches();
    void make_step_ends();
    Queue& queue_of(const plan::Op& op);

    void run_step(const StepInputs& inputs);
    void run_on(const StepInputs& inputs);
    void perform(std::uint32_t first, std::uint32_t end, const StepInputs& inputs) override;
    void amend(const StepInputs& inputs) override;
    void perform(Walk& walk, std::uint32_t first, std::uint32_t end, const StepInputs& inputs);
    void start(Walk& walk, std::int64_t step);
    void issue(Walk& walk, std::uint32_t first, std::uint32_t end);
    void issue_op(Walk& walk, std::uint32_t id, Stream stream);
    void record_issue(const Walk& walk, std::uint32_t id);
    void record_ended(const Walk& walk);
    void wait_for(Walk& walk, std::uint32_t id, std::uint32_t first);
    void mark_ends(Walk& walk);
    void perform_op(const Walk& walk, const IssuedOp& op);
    void call_op(const IssuedOp& op);
    void take_times(const Walk& walk, std::uint32_t first, std::uint32_t end);
    void check();
    void end_run(const std::exception_ptr& cause);
    std::exception_ptr with_asked(std::exception_ptr cause) const;
    // Ends the run for the other ranks where `act` throws, and throws that.
    template <typename Act>
    void ending_run(const Act& act);

    const BoundProgram& program_;
    Communicator& communicator_;
    StreamCommunicator* queued_;  // the same, where its calls are put into streams; else null
    StreamDriver& driver_;
    StreamOptions options_;
    FlightRecorder* recorder_;
    IssuedOps* issued_;
    Timing timing_;
    bool line_beside_;
    MemoryTiers memory_;
    std::array<std::unique_ptr<Queue>, plan::kStreams> owned_queues_;
    std::array<Queue*, plan::kStreams> queues_{};  // null: the plan has no op there
    std::optional<Performer> performer_, server_;
    StreamSchedule schedule_;
    std::optional<StreamSchedule> amendment_schedule_;
    std::vector<std::unique_ptr<Walk>> walks_;  // by turn
    std::unique_ptr<Walk> amendment_;
    ArenaGuard* guard_ = nullptr;
    std::vector<std::unique_ptr<OpWatch>> watches_;
    std::optional<PostValidation> validation_;
    std::vector<OpTime> times_;
    std::uint32_t begun_ = 0;     // steps
    const Walk* last_ = nullptr;  // of those that run on
    bool failed_ = false;
    std::unique_ptr<StepEnds> ends_;  // goes first: it may be telling of a step
};

}  // namespace orrery::runtime
