#include "runtime/cpu/cpu_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <utility>

#include "plan/check.hpp"
#include "runtime/kernels/scalar_rules.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace {

// What a thread leaves its ops with when the other one of its rank has failed.
struct StepGivenUp {};

constexpr std::size_t kArenaAlignment = 4096;
// More than any step has ops: whoever waits sees another number, also of ops that others still end.
constexpr std::uint32_t kMore = std::uint32_t{1} << 30;
constexpr std::uint32_t kDelaySite = 0xdeadU;

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::byte* allocate(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    auto* memory =
        static_cast<std::byte*>(::operator new (size, std::align_val_t{kArenaAlignment}));
    std::memset(memory, 0, size);
    return memory;
}

}  // namespace

void CpuDevice::MemoryDeleter::operator()(std::byte* memory) const {
    ::operator delete (memory, std::align_val_t{kArenaAlignment});
}

CpuDevice::CpuDevice(const BoundProgram& program, const plan::Scenario& scenario,
                     Communicator& communicator, const CpuOptions& options,
                     FlightRecorder* recorder)
    : program_(program),
      communicator_(communicator),
      recorder_(recorder),
      options_(options),
      memory_(allocate(program.memory_bytes() + (options.guard ? 2 * ArenaGuard::kZone : 0))),
      arena_(memory_.get() + (options.guard ? ArenaGuard::kZone : 0)),
      compute_kernels_(options.threads),
      performer_(program, communicator, arena_, compute_kernels_),
      clip_norm_(scenario.training.optimizer.clip_norm),
      stretches_(static_cast<std::size_t>(program.turns())),
      under_way_(static_cast<std::size_t>(program.turns())),
      times_(program.ops.size()) {
    // Guarded ops run one at a time, whatever they wait for: on one line in the order of all ranks.
    if (Communicator* const line = communicator.beside();
        line != nullptr && program.turns() > 1 && !options.guard)
        server_.emplace(program, *line, arena_, server_kernels_);
    for (std::int64_t turn = 0; turn < program.turns(); ++turn)
        turns_.emplace_back(program.of_step(turn), server_.has_value());
    if (options.guard) guard_ = std::make_unique<ArenaGuard>(program, communicator.rank(), arena_);
    if (program.disk_bytes > 0)
        disk_ = std::make_unique<DiskTier>(scenario.run.offload_path, program.disk_bytes);
    if (program.validation.amendment) amendment_.emplace(*program.validation.amendment, false);
    followers_[1].lane = copies;
    followers_[2].lane = servers;
    for (Follower& follower : followers_) {
        const bool amends = amendment_ && !amendment_->ops[follower.lane].empty();
        if (amends || !turns_[0].ops[follower.lane].empty())
            follower.thread = std::thread([this, &follower] { serve(follower); });
    }
}

CpuDevice::Work::Work(const BoundProgram& bound, bool apart) : program(bound) {
    for (std::uint32_t id = 0; id < bound.ops.size(); ++id) {
        const plan::Op& op = *bound.ops[id].op;
        Lane lane = plan::is_copy(op.kind()) ? copies : communication;
        if (op.stream == plan::Stream::compute) lane = compute;
        const bool serves =
            op.stream == plan::Stream::server || op.stream == plan::Stream::data_comm;
        if (apart && serves) lane = servers;
        ops[lane].push_back(id);
    }
}

CpuDevice::~CpuDevice() {
    leaving_.store(true);
    begun_.fetch_add(1);
    begun_.notify_all();
    for (Follower& follower : followers_)
        if (follower.thread.joinable()) follower.thread.join();
}

// Up to where the step before is validated, which begins anew if that had to be amended; the rest.
void CpuDevice::run(const StepInputs& inputs) {
    if (runs_on()) return run_on(inputs);
    inputs_ = &inputs;
    const Validation& validation = program_.validation;
    const auto end = static_cast<std::uint32_t>(program_.ops.size());
    if (amendment_) {
        perform({&turns_[0], 0, validation.first, inputs_});
        if (to_validate_ && !validated_as_taken())
            perform({&turns_[0], 0, validation.first, inputs_});
    }
    perform({&turns_[0], validation.end, end, inputs_});
    if (guard_) guard_->end_of_step();
    to_validate_ = amendment_.has_value();
    taken_ = inputs;
    taken_.tokens = taken_.targets = {};
    inputs_ = &taken_;
}

// A place among the stretches is free once the step that had it has ended.
void CpuDevice::run_on(const StepInputs& inputs) {
    await_all_but(std::ssize(turns_) - 1);
    const std::uint32_t number = begun_.load();
    StepInputs& kept = under_way_[number % under_way_.size()];
    kept = inputs;
    const Work& work = turns_[static_cast<std::size_t>(inputs.step) % turns_.size()];
    Stretch& stretch = stretches_[number % stretches_.size()];
    stretch = {&work, 0, static_cast<std::uint32_t>(work.program.ops.size()), &kept};
    for (std::size_t s = 0; s < stretch.before.size(); ++s)
        stretch.before[s] = number * work.program.linked.ops_per_stream[s];
    begin();
    walk(stretch, compute);
    if (failed_.load()) await_all_but(0);
    if (!guard_) return;
    await_all_but(0);
    guard_->end_of_step();
}

void CpuDevice::await_all_but(std::int64_t steps) {
    for (const Follower& follower : followers_)
        if (runs_on() && follower.thread.joinable())
            await_all_but(follower, static_cast<std::uint32_t>(steps));
    if (failed_.load()) std::rethrow_exception(cause_);
}

void CpuDevice::when_ended(std::function<void(const StepInputs&)> tell) {
    tell_ended_ = std::move(tell);
}

// Not from getrusage: a process that another started has the starter's size there.
std::optional<std::int64_t> CpuDevice::bytes_in_use() const {
    if (!options_.alone) return std::nullopt;
    constexpr std::int64_t kBytesPerKiB = 1024;
    std::ifstream status("/proc/self/status");
    std::string key;
    while (status >> key)
        if (std::int64_t kibibytes = 0; key == "VmHWM:" && status >> kibibytes)
            return kibibytes * kBytesPerKiB;
    return std::nullopt;
}

void CpuDevice::validate() {
    if (to_validate_) validated_as_taken();
}

// Whether the step before stands as it was taken; if not, it has been amended. Every rank finds the
// same. It is the only thing that the host decides while a step runs: that forward passes are done
// again no predicate of an op can say.
bool CpuDevice::validated_as_taken() {
    perform({&turns_[0], program_.validation.first, program_.validation.end, inputs_});
    to_validate_ = false;
    if (!amended()) return true;
    perform({&*amendment_, 0, static_cast<std::uint32_t>(amendment_->program.ops.size()), &taken_});
    return false;
}

bool CpuDevice::amended() const {
    const std::int64_t norm = program_.scalar("norm"), overflow = program_.scalar("overflow");
    return calls_for_amendment(
        norm < 0 ? nullptr : reinterpret_cast<const double*>(arena_ + norm), clip_norm_,
        overflow < 0 ? nullptr : reinterpret_cast<const float*>(arena_ + overflow));
}

// All ops before the stretch have ended: so do streams count.
void CpuDevice::perform(const Stretch& stretch) {
    plan::StreamCounts before{};
    for (std::uint32_t id = 0; id < stretch.first; ++id)
        ++before[plan::index_of(stretch.work->program.ops[id].op->stream)];
    for (std::size_t s = 0; s < before.size(); ++s)
        ended_[s].store(before[s], std::memory_order_relaxed);
    stretches_.front() = stretch;
    begin();
    walk(stretch, compute);
    for (const Follower& follower : followers_)
        if (follower.thread.joinable()) await_all_but(follower, 0);
    if (failed_.load()) std::rethrow_exception(cause_);
}

void CpuDevice::begin() {
    ORRERY_CHECK(!failed_.load(), "a device that has failed performs no more steps");
    begun_.fetch_add(1);
    begun_.notify_all();
}

void CpuDevice::await_all_but(const Follower& follower, std::uint32_t stretches) const {
    const std::uint32_t begun = begun_.load();
    for (std::uint32_t done = follower.done.load(); begun - done > stretches;
         done = follower.done.load())
        follower.done.wait(done);
}

void CpuDevice::serve(Follower& follower) {
    for (std::uint32_t begun = 0;; ++begun) {
        begun_.wait(begun);
        if (leaving_.load()) return;
        const Stretch& stretch = stretches_[begun % stretches_.size()];
        walk(stretch, follower.lane);
        if (runs_on() && ends_steps(follower.lane)) end_step(stretch);
        follower.done.store(begun + 1);
        follower.done.notify_all();
    }
}

void CpuDevice::walk(const Stretch& stretch, Lane lane) {
    const std::vector<std::uint32_t>& ops = stretch.work->ops[lane];
    try {
        for (auto id = std::lower_bound(ops.begin(), ops.end(), stretch.first);
             id != ops.end() && *id < stretch.end; ++id) {
            const BoundOp& bound = stretch.work->program.ops[*id];
            for (const plan::Wait& wait : bound.waits)
                wait_for(stretch, wait);
            perform(stretch, lane, *id);
            auto& ended = ended_[plan::index_of(bound.op->stream)];
            ended.fetch_add(1, std::memory_order_release);
            ended.notify_all();
        }
    } catch (const StepGivenUp&) {  // the other thread has the cause
    } catch (...) {
        fail(std::current_exception());
    }
}

// What other threads still do of the step is waited for.
void CpuDevice::end_step(const Stretch& stretch) {
    try {
        const plan::StreamCounts& all = stretch.work->program.linked.ops_per_stream;
        for (std::size_t s = 0; s < all.size(); ++s)
            wait_for(stretch, {all[s], static_cast<plan::Stream>(s)});
        if (tell_ended_) tell_ended_(*stretch.inputs);
    } catch (const StepGivenUp&) {
    } catch (...) {
        fail(std::current_exception());
    }
}

void CpuDevice::wait_for(const Stretch& stretch, const plan::Wait& wait) {
    const std::size_t stream = plan::index_of(wait.stream);
    auto& ended = ended_[stream];
    const std::uint32_t awaited = stretch.before[stream] + wait.count;
    const auto is_over = [&](std::uint32_t count) {
        return static_cast<std::int32_t>(awaited - count) <= 0;
    };
    std::uint32_t count = ended.load(std::memory_order_acquire);
    while (!is_over(count) && !failed_.load()) {
        ended.wait(count, std::memory_order_acquire);
        count = ended.load(std::memory_order_acquire);
    }
    if (failed_.load(std::memory_order_relaxed)) throw StepGivenUp{};
}

void CpuDevice::perform(const Stretch& stretch, Lane lane, std::uint32_t id) {
    if (options_.delay_seed != 0) {
        const RandomKey key{options_.delay_seed, kDelaySite,
                            static_cast<std::uint32_t>(stretch.inputs->step)};
        if (uniform(key, id) < 0.2)
            std::this_thread::sleep_for(
                std::chrono::microseconds(static_cast<int>(400 * uniform(key, id + (1U << 31)))));
    }
    if (guard_) return perform_alone(stretch, lane, id);
    if (options_.poison) poison(stretch.work->program.ops[id]);
    run_op(stretch, lane, id);
}

// Ops that wait for other ranks hold up those of this one. That closes no circle: what another rank
// needs of this one's, it gets by communication, whose order all ranks share.
void CpuDevice::perform_alone(const Stretch& stretch, Lane lane, std::uint32_t id) {
    const std::lock_guard alone(guard_mutex_);
    const BoundOp& bound = stretch.work->program.ops[id];
    if (options_.poison) {
        poison(bound);
        for (const Birth& birth : bound.births)
            guard_->accept(birth.offset, birth.bytes);
    }
    guard_->begin(bound);
    run_op(stretch, lane, id);
    guard_->end(bound);
}

void CpuDevice::poison(const BoundOp& bound) {
    for (const Birth& birth : bound.births)
        std::memset(arena_ + birth.offset, 0xff, static_cast<std::size_t>(birth.bytes));
}

void CpuDevice::run_op(const Stretch& stretch, Lane lane, std::uint32_t id) {
    OpTime time;
    time.begin = now();
    const BoundOp& bound = stretch.work->program.ops[id];
    const std::uint64_t number =
        recorder_ != nullptr ? recorder_->begin(bound, stretch.inputs->step, time.begin) : 0;
    if (plan::is_copy(bound.op->kind()))
        copy(bound);
    else if (lane == servers)
        server_->perform(bound, *stretch.inputs, server_kernels_);
    else
        performer_.perform(bound, *stretch.inputs,
                           lane == compute ? compute_kernels_ : communication_kernels_);
    time.end = now();
    if (recorder_ != nullptr) recorder_->end(number, time.end);
    if (amendment_ && stretch.work == &*amendment_) return;
    times_[id] = {time.begin + options_.clock_offset_ns, time.end + options_.clock_offset_ns};
}

std::optional<double> CpuDevice::computed_s() const {
    if (runs_on()) return std::nullopt;  // later steps are computed meanwhile
    std::int64_t nanoseconds = 0;
    for (const std::uint32_t id : turns_[0].ops[compute])
        nanoseconds += times_[id].end - times_[id].begin;
    return static_cast<double>(nanoseconds) * 1e-9;
}

void CpuDevice::copy(const BoundOp& bound) {
    const Operand &from = bound.reads[0], &to = bound.writes[0];
    const auto bytes = static_cast<std::size_t>(from.bytes());
    if (bound.op->kind() == plan::OpKind::read_disk)
        read(from.offset, {arena_ + to.offset, bytes});
    else if (bound.op->kind() == plan::OpKind::write_disk)
        disk_->write(to.offset - program_.memory_bytes(), {arena_ + from.offset, bytes});
    else
        std::memcpy(arena_ + to.offset, arena_ + from.offset, bytes);
}

void CpuDevice::fail(std::exception_ptr cause) {
    {
        const std::lock_guard lock(cause_mutex_);
        if (!cause_) cause_ = std::move(cause);
    }
    failed_.store(true);
    try {
        std::rethrow_exception(cause_);
    } catch (const std::exception& error) {
        communicator_.abort(error.what());
    } catch (...) {
        communicator_.abort("an unknown error");
    }
    for (auto& ended : ended_) {
        ended.fetch_add(kMore);
        ended.notify_all();
    }
}

void CpuDevice::read(std::int64_t offset, std::span<std::byte> into) const {
    if (offset >= program_.memory_bytes())
        disk_->read(offset - program_.memory_bytes(), into);
    else
        std::memcpy(into.data(), arena_ + offset, into.size());
}

void CpuDevice::write(std::int64_t offset, std::span<const std::byte> from) {
    if (offset >= program_.memory_bytes())
        return disk_->write(offset - program_.memory_bytes(), from);
    std::memcpy(arena_ + offset, from.data(), from.size());
    if (guard_) guard_->accept(offset, static_cast<std::int64_t>(from.size()));
}

}  // namespace orrery::runtime
