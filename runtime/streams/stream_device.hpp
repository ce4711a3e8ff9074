// A device with queues, as the executor sees it: the plan's streams are the device's, the plan's
// edges are events. One thread puts a whole step into the streams, in issue order, and then waits;
// nothing of what the host does in between depends on a value that the device computed.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/executor/device.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/streams/stream_communicator.hpp"
#include "runtime/streams/stream_driver.hpp"
#include "runtime/streams/stream_schedule.hpp"

namespace orrery::runtime {

struct StreamOptions {
    bool time_ops = false;  // two timed events around every op; without, times() are the step's
    bool poison = false;    // memory that changes hands is filled with NaN first
};

class StreamDevice final : public Device {
  public:
    // All must outlive the device. The driver's arena is allocated here.
    StreamDevice(const BoundProgram& program, StreamCommunicator& communicator,
                 StreamDriver& driver, const StreamOptions& options);

    void run(const StepInputs& inputs) override;
    std::span<const OpTime> times() const override { return times_; }
    std::optional<std::int64_t> bytes_in_use() const override { return driver_.bytes_in_use(); }
    void read(std::int64_t offset, std::span<std::byte> into) const override;
    void write(std::int64_t offset, std::span<const std::byte> from) override;

  private:
    // A stream of the plan that has ops; the others are none of the device's.
    struct Lane {
        Stream stream;
        std::unique_ptr<Kernels> kernels;
        Event done;  // end of the step
    };

    void issue(std::uint32_t id, const StepInputs& inputs);
    void poison(const BoundOp& bound, Kernels& kernels) const;
    void wait_for_end();
    void take_times(std::int64_t origin);

    const BoundProgram& program_;
    StreamCommunicator& communicator_;
    StreamDriver& driver_;
    StreamOptions options_;
    StreamSchedule schedule_;
    std::byte* arena_;
    std::array<Lane, plan::kStreams> lanes_;
    std::unique_ptr<Performer> performer_;
    Event start_;
    std::vector<Event> begins_, ends_;  // by op id; ends: of marked ops, or of all that are timed
    std::vector<OpTime> times_;
};

}  // namespace orrery::runtime
