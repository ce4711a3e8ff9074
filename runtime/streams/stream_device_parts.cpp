// What a StreamDevice is made of: queues, performers, watches, what else it wears.
#include <exception>

#include "plan/check.hpp"
#include "runtime/streams/arena_guard.hpp"
#include "runtime/streams/poison.hpp"
#include "runtime/streams/random_delays.hpp"
#include "runtime/streams/stream_device_walk.hpp"

namespace orrery::runtime {

StreamDevice::StreamDevice(const BoundProgram& program, StreamCommunicator& communicator,
                           StreamDriver& driver, const StreamOptions& options, IssuedOps* issued)
    : StreamDevice(program, communicator, &communicator, driver, options, nullptr, issued) {}

StreamDevice::StreamDevice(const BoundProgram& program, Communicator& communicator,
                           StreamDriver& driver, const StreamOptions& options,
                           FlightRecorder* recorder)
    : StreamDevice(program, communicator, nullptr, driver, options, recorder, nullptr) {
    ORRERY_CHECK(driver.performs_in_turn(), "calls that block are made in their turn");
}

StreamDevice::StreamDevice(const BoundProgram& program, Communicator& communicator,
                           StreamCommunicator* queued, StreamDriver& driver,
                           const StreamOptions& options, FlightRecorder* recorder,
                           IssuedOps* issued)
    : program_(program),
      communicator_(communicator),
      queued_(queued),
      driver_(driver),
      options_(options),
      recorder_(recorder),
      issued_(issued),
      timing_(options.time_ops ? Timing::by_marks : Timing::of_steps),
      line_beside_(may_use_line_beside()),
      memory_(program, driver, options.guard ? ArenaGuard::kZone : 0, options.offload_path),
      schedule_(program),
      times_(program.ops.size()) {
    if (driver.performs_in_turn()) timing_ = Timing::by_clock;
    driver_.when_failed([this](const std::exception_ptr& cause) { end_run(cause); });
    add_queue(plan::Stream::compute);
    for (const BoundOp& bound : program.ops)
        add_queue(bound.op->stream);
    if (const auto& amendment = program.validation.amendment)
        for (const BoundOp& bound : amendment->ops)
            add_queue(bound.op->stream);
    make_performers();
    make_walks();
    make_watches();
    make_repeated_work();
    make_step_ends();
    if (amendment_) validation_.emplace(program, static_cast<StepParts&>(*this));
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
        case plan::Stream::vocabulary_comm:
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
    if (driver_.performs_in_turn() && driver_.shares_host_memory() && !runs_on())
        performer_->count_experts();
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

// Ops that are looked at one by one are issued so.
void StreamDevice::make_repeated_work() {
    if (!options_.keep_layers || !driver_.keeps_work() || timing_ != Timing::of_steps ||
        !watches_.empty())
        return;
    for (const auto& walk : walks_)
        walk->repeated = std::make_unique<RepeatedWork>(
            walk->program, walk->schedule, driver_,
            [this](const BoundOp& bound) { return performer_->prepare(bound, nullptr); });
}

void StreamDevice::prepare() {
    const auto prepare_program = [this](const BoundProgram& program) {
        for (const BoundOp& bound : program.ops) {
            Queue& queue = queue_of(*bound.op);
            queue.performer->prepare(bound, &*queue.kernels);
        }
    };
    for (std::int64_t turn = 0; turn < program_.turns(); ++turn)
        prepare_program(program_.of_step(turn));
    if (const auto& amendment = program_.validation.amendment) prepare_program(*amendment);
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
        driver_, [this](const std::exception_ptr& cause) { end_run(cause); });
}

}  // namespace orrery::runtime
