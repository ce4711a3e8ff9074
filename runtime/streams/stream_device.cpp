#include "runtime/streams/stream_device.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "plan/check.hpp"
#include "runtime/streams/arena_guard.hpp"
#include "runtime/streams/stream_device_walk.hpp"

namespace orrery::runtime {
namespace {

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

// For the other ranks.
void StreamDevice::end_run(const std::exception_ptr& cause) {
    try {
        std::rethrow_exception(cause);
    } catch (const std::exception& error) {
        communicator_.abort(error.what());
    } catch (...) {
        communicator_.abort("an unknown error");
    }
}

template <typename Act>
void StreamDevice::ending_run(const Act& act) {
    try {
        act();
    } catch (...) {
        failed_ = true;
        const std::exception_ptr cause = with_asked(std::current_exception());
        end_run(cause);
        driver_.finish();  // what was issued reads what the caller has brought
        std::rethrow_exception(cause);
    }
}

// What a driver throws knows its call, and not what that was for.
std::exception_ptr StreamDevice::with_asked(std::exception_ptr cause) const {
    if (issued_ == nullptr) return cause;
    try {
        std::rethrow_exception(cause);
    } catch (const DeviceError& error) {
        const auto asking = issued_->asking();
        if (!asking) return cause;
        return std::make_exception_ptr(DeviceError(asking->what + ": " + error.what()));
    } catch (...) {
        return cause;
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
    start(*walks_[0], inputs.step);
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
    record_ended(walk);
    take_times(walk, first, end);
    if (issued_ != nullptr) issued_->answered();
}

// A turn is free once the step that had it has ended.
void StreamDevice::run_on(const StepInputs& inputs) {
    if (issued_ != nullptr) issued_->ask("the beginning", inputs.step);
    ends_->await_all_but(program_.turns() - 1, [this] { check(); });
    const auto turn = static_cast<std::size_t>(inputs.step) % walks_.size();
    Walk& walk = *walks_[turn];
    record_ended(walk);
    walk.kept = inputs;
    walk.inputs = &walk.kept;
    start(walk, inputs.step);
    issue(walk, 0, static_cast<std::uint32_t>(walk.program.ops.size()));
    mark_ends(walk);
    ++begun_;
    last_ = &walk;
    ends_->issued({turn, walk.done, inputs});
    driver_.await(walk.done.front(), [this] { check(); });
    if (issued_ != nullptr) issued_->answered();
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

void StreamDevice::start(Walk& walk, std::int64_t step) {
    if (issued_ != nullptr) issued_->ask("the beginning", step);
    walk.origin = now();
    driver_.record(walk.start, queues_[plan::index_of(plan::Stream::compute)]->stream);
}

void StreamDevice::issue(Walk& walk, std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t id = first; id < end; ++id) {
        const Stream stream = queue_of(*walk.program.ops[id].op).stream;
        record_issue(walk, id);
        wait_for(walk, id, first);
        issue_op(walk, id, stream);
        if (walk.ends[id].handle != nullptr) driver_.record(walk.ends[id], stream);
        if (issued_ != nullptr) issued_->issued(stream, walk.ends[id]);
    }
}

// What is launched at once with others is recorded with the first of them.
void StreamDevice::record_issue(const Walk& walk, std::uint32_t id) {
    if (issued_ == nullptr) return;
    const auto begin = [&](std::uint32_t op) {
        issued_->begin(walk.program.ops[op], walk.inputs->step);
    };
    if (!walk.repeated) return begin(id);
    if (walk.repeated->is_within(id)) return;
    const std::span<const std::uint32_t> with = walk.repeated->issued_with(id);
    if (with.empty()) begin(id);
    for (const std::uint32_t op : with)
        begin(op);
}

// Of a step that has.
void StreamDevice::record_ended(const Walk& walk) {
    if (issued_ == nullptr) return;
    for (const Event done : walk.done)
        issued_->passed(done);
}

void StreamDevice::issue_op(Walk& walk, std::uint32_t id, Stream stream) {
    const auto put = [&](std::uint32_t op) { driver_.issue(stream, walk, op); };
    if (!walk.repeated) return put(id);
    if (!walk.repeated->is_within(id) && !walk.repeated->issue(id, stream, put)) put(id);
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
    if (issued_ != nullptr) issued_->ask("the end", walk.inputs->step);
    std::size_t next = 0;
    for (const auto& queue : owned_queues_) {
        if (!queue) continue;
        driver_.record(walk.done[next], queue->stream);
        if (issued_ != nullptr) issued_->marked(queue->stream, walk.done[next]);
        ++next;
    }
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
    if (issued_ != nullptr) issued_->ask_again();
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
