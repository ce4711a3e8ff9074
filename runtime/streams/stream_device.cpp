#include "runtime/streams/stream_device.hpp"

#include <chrono>
#include <exception>
#include <limits>
#include <thread>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Long enough to leave the core to others, short beside a step.
constexpr std::chrono::microseconds kPoll{20};

}  // namespace

StreamDevice::StreamDevice(const BoundProgram& program, StreamCommunicator& communicator,
                           StreamDriver& driver, const StreamOptions& options)
    : program_(program),
      communicator_(communicator),
      driver_(driver),
      options_(options),
      schedule_(program),
      arena_(driver.allocate(program.arena_bytes)),
      begins_(program.ops.size()),
      ends_(program.ops.size()),
      times_(program.ops.size()) {
    ORRERY_CHECK(!program.validation.amendment, "streams do not go back to where a step began");
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
        const plan::Stream stream = program.ops[id].op->stream;
        Lane& lane = lanes_[plan::index_of(stream)];
        const bool computes = stream == plan::Stream::compute;
        if (!lane.kernels) {
            lane.stream =
                driver.create_stream(computes ? StreamUse::compute : StreamUse::communication);
            lane.kernels = driver.kernels(lane.stream, arena_ + program.workspace.offset,
                                          computes ? program.workspace.bytes : 0);
            lane.done = driver.create_event(false);
        }
        if (options.time_ops) begins_[id] = driver.create_event(true);
        if (options.time_ops || schedule_.marked(id))
            ends_[id] = driver.create_event(options.time_ops);
    }
    start_ = driver.create_event(options.time_ops);
    performer_ = std::make_unique<Performer>(
        program, communicator, arena_, *lanes_[plan::index_of(plan::Stream::compute)].kernels);
}

void StreamDevice::run(const StepInputs& inputs) {
    try {
        const std::int64_t origin = now();
        driver_.record(start_, lanes_[plan::index_of(plan::Stream::compute)].stream);
        for (std::uint32_t id = 0; id < program_.ops.size(); ++id)
            issue(id, inputs);
        for (const Lane& lane : lanes_)
            if (lane.kernels) driver_.record(lane.done, lane.stream);
        wait_for_end();
        take_times(origin);
    } catch (const std::exception& error) {
        communicator_.abort(error.what());
        throw;
    }
}

void StreamDevice::issue(std::uint32_t id, const StepInputs& inputs) {
    const BoundOp& bound = program_.ops[id];
    const Lane& lane = lanes_[plan::index_of(bound.op->stream)];
    for (const std::uint32_t awaited : schedule_.waits(id))
        driver_.wait(lane.stream, ends_[awaited]);
    if (options_.time_ops) driver_.record(begins_[id], lane.stream);
    if (options_.poison) poison(bound, *lane.kernels);
    if (plan::is_communication(bound.op->kind())) communicator_.issue_on(lane.stream);
    performer_->perform(bound, inputs, *lane.kernels);
    if (options_.time_ops || schedule_.marked(id)) driver_.record(ends_[id], lane.stream);
}

void StreamDevice::poison(const BoundOp& bound, Kernels& kernels) const {
    for (const Birth& birth : bound.births)
        kernels.fill({birth.bytes / plan::size_bytes(plan::DType::fp32),
                      std::numeric_limits<double>::quiet_NaN(),
                      {arena_ + birth.offset, plan::DType::fp32}});
}

void StreamDevice::wait_for_end() {
    for (const Lane& lane : lanes_)
        while (lane.kernels && !driver_.passed(lane.done)) {
            communicator_.check();
            std::this_thread::sleep_for(kPoll);
        }
    communicator_.check();
}

void StreamDevice::take_times(std::int64_t origin) {
    if (!options_.time_ops) {
        std::fill(times_.begin(), times_.end(), OpTime{origin, now()});
        return;
    }
    for (std::size_t id = 0; id < times_.size(); ++id)
        times_[id] = {origin + driver_.nanoseconds(start_, begins_[id]),
                      origin + driver_.nanoseconds(start_, ends_[id])};
}

void StreamDevice::read(std::int64_t offset, std::span<std::byte> into) const {
    driver_.read(arena_ + offset, into);
}

void StreamDevice::write(std::int64_t offset, std::span<const std::byte> from) {
    driver_.write(arena_ + offset, from);
}

}  // namespace orrery::runtime
