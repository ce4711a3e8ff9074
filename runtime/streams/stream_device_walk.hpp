// A program as a device walks it, for one turn: its marks, and what its queues call back when an
// op's turn has come. Internal to StreamDevice.
#pragma once

#include <memory>
#include <vector>

#include "runtime/streams/repeated_work.hpp"
#include "runtime/streams/stream_device.hpp"

namespace orrery::runtime {

class StreamDevice::Walk final : public QueuedWork, private OpPerformer {
  public:
    Walk(StreamDevice& device, const BoundProgram& walked, const StreamSchedule& waits,
         bool has_times)
        : program(walked),
          schedule(waits),
          timed(has_times),
          begins(walked.ops.size()),
          ends(walked.ops.size()),
          device_(device) {
        StreamDriver& driver = device.driver_;
        const bool marks_times = timed && device.timing_ == Timing::by_marks;
        for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
            if (marks_times) begins[id] = driver.create_event(true);
            if (marks_times || schedule.marked(id)) ends[id] = driver.create_event(marks_times);
        }
        start = driver.create_event(marks_times);
        for (std::size_t queue = 0; queue < device.owned_queues_.size(); ++queue)
            if (device.owned_queues_[queue]) done.push_back(driver.create_event(false));
    }

    const BoundProgram& program;
    const StreamSchedule& schedule;
    const bool timed;                 // the step's times are of this one
    std::vector<Event> begins, ends;  // by op id; ends: of marked ops, or of all that are timed
    Event start;                      // in the stream that computes
    std::vector<Event> done;          // by queue
    std::int64_t origin = 0;          // when `start` was issued
    const StepInputs* inputs = nullptr;
    StepInputs kept;                         // of a step that runs on
    std::unique_ptr<RepeatedWork> repeated;  // null: ops are issued one by one

  private:
    void perform(std::uint32_t id) override {
        const BoundOp& bound = program.ops[id];
        Queue& queue = device_.queue_of(*bound.op);
        if (timed && device_.timing_ == Timing::by_marks)
            device_.driver_.record(begins[id], queue.stream);
        const IssuedOp op{bound, *inputs, id, queue.stream, *queue.kernels};
        OpRest(device_.watches_, *this).perform(op);
    }
    void perform(const IssuedOp& op) override { device_.perform_op(*this, op); }

    StreamDevice& device_;
};

}  // namespace orrery::runtime
