#include "runtime/streams/stream_device.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include "plan/check.hpp"
#include "runtime/streams/arena_guard.hpp"
#include "runtime/streams/poison.hpp"
#include "runtime/streams/random_delays.hpp"

namespace orrery::runtime {
namespace {

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string said(const std::exception_ptr& cause) {
    try {
        std::rethrow_exception(cause);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an unknown error";
    }
}

}  // namespace

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
    StepInputs kept;  // of a step that runs on

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

void StreamOptions::of_scenario(const plan::Scenario& scenario) {
    clip_norm = scenario.training.optimizer.clip_norm;
    offload_path = scenario.run.offload_path;
}

StreamDevice::StreamDevice(const BoundProgram& program, StreamCommunicator& communicator,
                           StreamDriver& driver, const StreamOptions& options)
    : StreamDevice(program, communicator, &communicator, driver, options, nullptr) {}

StreamDevice::StreamDevice(const BoundProgram& program, Communicator& communicator,
                           StreamDriver& driver, const StreamOptions& options,
                           FlightRecorder* recorder)
    : StreamDevice(program, communicator, nullptr, driver, options, recorder) {
    ORRERY_CHECK(driver.performs_in_turn(), "calls that block are made in their turn");
}

StreamDevice::StreamDevice(const BoundProgram& program, Communicator& communicator,
                           StreamCommunicator* queued, StreamDriver& driver,
                           const StreamOptions& options, FlightRecorder* recorder)
    : program_(program),
      communicator_(communicator),
      queued_(queued),
      driver_(driver),
      options_(options),
      recorder_(recorder),
      timing_(options.time_ops ? Timing::by_marks : Timing::of_steps),
      line_beside_(may_use_line_beside()),
      memory_(program, driver, options.guard ? ArenaGuard::kZone : 0, options.offload_path),
      schedule_(program),
      times_(program.ops.size()) {
    if (driver.performs_in_turn()) timing_ = Timing::by_clock;
    driver_.when_failed(
        [this](const std::exception_ptr& cause) { communicator_.abort(said(cause)); });
    add_queue(plan::Stream::compute);
    for (const BoundOp& bound : program.ops)
        add_queue(bound.op->stream);
    if (const auto& amendment = program.validation.amendment)
        for (const BoundOp& bound : amendment->ops)
            add_queue(bound.op->stream);
    make_performers();
    make_walks();
    make_watches();
    make_step_ends();
    if (amendment_) validation_.emplace(program, options.clip_norm, static_cast<StepParts&>(*this));
}

// What was issued refers to the device.
StreamDevice::~StreamDevice() {
    driver_.finish();
    driver_.when_failed({});
    ends_.reset();
}

// Guarded ops run one at a time, whatever they wait for: on one line in the order of all ranks.
bool StreamDevice::may_use_line_beside() const {
    return queued_ == nullptr && communicator_.beside() != nullptr && runs_on() && !options_.guard;
}

// Calls that block are made in one stream for all of them: their order is the same on every rank as
// far as groups are concerned (plan_faults), so that they cannot wait for each other in a ring.
StreamUse StreamDevice::use_of(plan::Stream stream) const {
    switch (stream) {
        case plan::Stream::compute:
            return StreamUse::compute;
        case plan::Stream::copy:
        case plan::Stream::copy_out:
        case plan::Stream::disk_read:
        case plan::Stream::disk_write:
            return StreamUse::copies;
        case plan::Stream::server:
            return queued_ != nullptr || line_beside_ ? StreamUse::server
                                                      : StreamUse::communication;
        case plan::Stream::data_comm:
            return line_beside_ ? StreamUse::server : StreamUse::communication;
        case plan::Stream::tensor_comm:
        case plan::Stream::context_comm:
        case plan::Stream::expert_comm:
        case plan::Stream::pipeline_comm:
        case plan::Stream::pipeline_before_comm:
            break;
    }
    return StreamUse::communication;
}

// Plan's streams that the driver has one for share its queue.
void StreamDevice::add_queue(plan::Stream stream) {
    Queue*& queue = queues_[plan::index_of(stream)];
    if (queue != nullptr) return;
    const Stream made = driver_.create_stream(use_of(stream));
    for (const auto& other : owned_queues_)
        if (other && other->stream.handle == made.handle) queue = other.get();
    if (queue != nullptr) return;
    auto& owned = owned_queues_[plan::index_of(stream)];
    owned = std::make_unique<Queue>();
    owned->stream = made;
    owned->kernels =
        driver_.kernels(made, memory_.arena() + program_.workspace.offset,
                        stream == plan::Stream::compute ? program_.workspace.bytes : 0);
    queue = owned.get();
}

StreamDevice::Queue& StreamDevice::queue_of(const plan::Op& op) {
    return *queues_[plan::index_of(op.stream)];
}

void StreamDevice::make_performers() {
    const auto kernels_of = [&](plan::Stream stream) -> Kernels& {
        return *queues_[plan::index_of(stream)]->kernels;
    };
    performer_.emplace(program_, communicator_, memory_.arena(), kernels_of(plan::Stream::compute));
    for (const auto& queue : owned_queues_)
        if (queue) queue->performer = &*performer_;
    Queue* const server = queues_[plan::index_of(plan::Stream::server)];
    if (!line_beside_ || server == nullptr) return;
    server_.emplace(program_, *communicator_.beside(), memory_.arena(),
                    kernels_of(plan::Stream::server));
    server->performer = &*server_;
}

void StreamDevice::make_walks() {
    for (std::int64_t turn = 0; turn < program_.turns(); ++turn)
        walks_.push_back(std::make_unique<Walk>(*this, program_.of_step(turn), schedule_, true));
    if (const auto& amendment = program_.validation.amendment) {
        amendment_schedule_.emplace(*amendment);
        amendment_ = std::make_unique<Walk>(*this, *amendment, *amendment_schedule_, false);
    }
}

void StreamDevice::make_watches() {
    if (options_.delay_seed != 0)
        watches_.push_back(std::make_unique<RandomDelays>(options_.delay_seed));
    if (options_.guard) watches_.push_back(std::make_unique<OneAtATime>());
    if (options_.poison) watches_.push_back(std::make_unique<Poison>(driver_, memory_));
    if (!options_.guard) return;
    auto guard = std::make_unique<ArenaGuard>(program_, communicator_.rank(), memory_.arena());
    guard_ = guard.get();
    watches_.push_back(std::move(guard));
}

void StreamDevice::make_step_ends() {
    if (!runs_on()) return;
    Queue* const server = queues_[plan::index_of(plan::Stream::server)];
    ORRERY_CHECK(server != nullptr, "steps that run on have servers");
    if (queued_ == nullptr) {
        ends_ = std::make_unique<EndsInStream>(driver_, server->stream, walks_.size());
        return;
    }
    ends_ = std::make_unique<EndsOnThread>(
        driver_, [this](const std::exception_ptr& cause) { communicator_.abort(said(cause)); });
}

template <typename Act>
void StreamDevice::ending_run(const Act& act) {
    try {
        act();
    } catch (...) {
        failed_ = true;
        communicator_.abort(said(std::current_exception()));
        throw;
    }
}

void StreamDevice::run(const StepInputs& inputs) {
    ORRERY_CHECK(!failed_, "a device that has failed performs no more steps");
    ending_run([&] {
        if (runs_on())
            run_on(inputs);
        else
            run_step(inputs);
    });
}

void StreamDevice::run_step(const StepInputs& inputs) {
    start(*walks_[0]);
    if (validation_)
        validation_->run(inputs);
    else
        perform(0, static_cast<std::uint32_t>(program_.ops.size()), inputs);
    if (guard_ != nullptr) guard_->end_of_step();
}

void StreamDevice::validate() {
    if (validation_) ending_run([&] { validation_->validate(); });
}

void StreamDevice::perform(std::uint32_t first, std::uint32_t end, const StepInputs& inputs) {
    perform(*walks_[0], first, end, inputs);
}

void StreamDevice::amend(const StepInputs& inputs) {
    perform(*amendment_, 0, static_cast<std::uint32_t>(amendment_->program.ops.size()), inputs);
}

void StreamDevice::perform(Walk& walk, std::uint32_t first, std::uint32_t end,
                           const StepInputs& inputs) {
    walk.inputs = &inputs;
    issue(walk, first, end);
    mark_ends(walk);
    for (const Event done : walk.done)
        driver_.await(done, [this] { check(); });
    take_times(walk, first, end);
}

// A turn is free once the step that had it has ended.
void StreamDevice::run_on(const StepInputs& inputs) {
    ends_->await_all_but(program_.turns() - 1, [this] { check(); });
    const auto turn = static_cast<std::size_t>(inputs.step) % walks_.size();
    Walk& walk = *walks_[turn];
    walk.kept = inputs;
    walk.inputs = &walk.kept;
    start(walk);
    issue(walk, 0, static_cast<std::uint32_t>(walk.program.ops.size()));
    mark_ends(walk);
    ++begun_;
    last_ = &walk;
    ends_->issued({turn, walk.done, inputs});
    driver_.await(walk.done.front(), [this] { check(); });
    if (guard_ == nullptr) return;
    ends_->await_all_but(0, [this] { check(); });
    guard_->end_of_step();
}

void StreamDevice::await_all_but(std::int64_t steps) {
    if (!runs_on()) return;
    ending_run([&] { ends_->await_all_but(steps, [this] { check(); }); });
    if (steps == 0 && last_ != nullptr)
        take_times(*last_, 0, static_cast<std::uint32_t>(program_.ops.size()));
}

void StreamDevice::when_ended(std::function<void(const StepInputs&)> tell) {
    if (ends_) ends_->tell(std::move(tell));
}

void StreamDevice::start(Walk& walk) {
    walk.origin = now();
    driver_.record(walk.start, queues_[plan::index_of(plan::Stream::compute)]->stream);
}

void StreamDevice::issue(Walk& walk, std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t id = first; id < end; ++id) {
        const Stream stream = queue_of(*walk.program.ops[id].op).stream;
        wait_for(walk, id, first);
        driver_.issue(stream, walk, id);
        if (walk.ends[id].handle != nullptr) driver_.record(walk.ends[id], stream);
    }
}

// All ops before the first one that is issued have ended, and all steps but those under way.
void StreamDevice::wait_for(Walk& walk, std::uint32_t id, std::uint32_t first) {
    const Queue& queue = queue_of(*walk.program.ops[id].op);
    for (const AwaitedOp& awaited : walk.schedule.waits(id)) {
        if (&queue_of(*walk.program.ops[awaited.op].op) == &queue) continue;
        if (awaited.steps_before == 0) {
            if (awaited.op >= first) driver_.wait(queue.stream, walk.ends[awaited.op]);
            continue;
        }
        const auto turns = static_cast<std::uint32_t>(walks_.size());
        if (awaited.steps_before > begun_ || awaited.steps_before >= turns) continue;
        const auto step = walk.inputs->step - static_cast<std::int64_t>(awaited.steps_before);
        const Walk& before = *walks_[static_cast<std::size_t>(step) % walks_.size()];
        driver_.wait(queue.stream, before.ends[awaited.op]);
    }
}

void StreamDevice::mark_ends(Walk& walk) {
    std::size_t next = 0;
    for (const auto& queue : owned_queues_)
        if (queue) driver_.record(walk.done[next++], queue->stream);
}

void StreamDevice::perform_op(const Walk& walk, const IssuedOp& op) {
    if (timing_ != Timing::by_clock) return call_op(op);
    OpTime time;
    time.begin = now();
    const std::uint64_t number =
        recorder_ != nullptr ? recorder_->begin(op.bound, op.inputs.step, time.begin) : 0;
    call_op(op);
    time.end = now();
    if (recorder_ != nullptr) recorder_->end(number, time.end);
    if (!walk.timed) return;
    times_[op.id] = {time.begin + options_.clock_offset_ns, time.end + options_.clock_offset_ns};
}

void StreamDevice::call_op(const IssuedOp& op) {
    if (plan::is_copy(op.bound.op->kind())) return memory_.copy(op.bound, op.stream);
    if (queued_ != nullptr && plan::is_communication(op.bound.op->kind()))
        queued_->issue_on(op.stream);
    queue_of(*op.bound.op).performer->perform(op.bound, op.inputs, op.kernels);
}

// Of ops [first, end), once they have ended.
void StreamDevice::take_times(const Walk& walk, std::uint32_t first, std::uint32_t end) {
    if (!walk.timed || timing_ == Timing::by_clock) return;
    const std::int64_t origin = walk.origin + options_.clock_offset_ns;
    const std::int64_t ended = now() + options_.clock_offset_ns;
    for (std::uint32_t id = first; id < end; ++id)
        times_[id] = timing_ == Timing::of_steps
                         ? OpTime{origin, ended}
                         : OpTime{origin + driver_.nanoseconds(walk.start, walk.begins[id]),
                                  origin + driver_.nanoseconds(walk.start, walk.ends[id])};
}

std::optional<double> StreamDevice::computed_s() const {
    if (runs_on() || timing_ == Timing::of_steps)
        return std::nullopt;  // where steps run on, later ones are computed meanwhile
    std::int64_t nanoseconds = 0;
    for (std::size_t id = 0; id < times_.size(); ++id)
        if (program_.ops[id].op->stream == plan::Stream::compute)
            nanoseconds += times_[id].end - times_[id].begin;
    return static_cast<double>(nanoseconds) * 1e-9;
}

// What was thrown where steps end comes before what other ranks have made of it.
void StreamDevice::check() {
    if (queued_ == nullptr) return;
    try {
        queued_->check();
    } catch (...) {
        if (ends_) ends_->rethrow();
        throw;
    }
    if (ends_) ends_->rethrow();
}

void StreamDevice::read(std::int64_t offset, std::span<std::byte> into) const {
    memory_.read(offset, into);
}

void StreamDevice::write(std::int64_t offset, std::span<const std::byte> from) {
    memory_.write(offset, from);
    if (guard_ != nullptr && offset < program_.memory_bytes())
        guard_->accept(offset, static_cast<std::int64_t>(from.size()));
}

}  // namespace orrery::runtime
