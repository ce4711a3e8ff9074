#include "runtime/cpu/cpu_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <utility>

#include "plan/ir/check.hpp"
#include "runtime/kernels/scalar_rules.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace {

// What a thread leaves its ops with when the other one of its rank has failed.
struct StepGivenUp {};

constexpr std::size_t kArenaAlignment = 4096;
// More than any step has ops, with room for those that other threads still end: were it the largest
// number, the next would be 0, and whoever saw 0 before would not wake.
constexpr std::uint32_t kAll = std::uint32_t{1} << 31;
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
      performer_(program, scenario, communicator, arena_, compute_kernels_),
      steps_(program),
      clip_norm_(scenario.training.optimizer.clip_norm),
      times_(program.ops.size()) {
    if (options.guard) guard_ = std::make_unique<ArenaGuard>(program, communicator.rank(), arena_);
    if (program.disk_bytes > 0)
        disk_ = std::make_unique<DiskTier>(scenario.run.offload_path, program.disk_bytes);
    if (program.validation.amendment) amendment_.emplace(*program.validation.amendment);
    followers_[1].lane = copies;
    for (Follower& follower : followers_) {
        const bool amends = amendment_ && !amendment_->ops[follower.lane].empty();
        if (amends || !steps_.ops[follower.lane].empty())
            follower.thread = std::thread([this, &follower] { serve(follower); });
    }
}

CpuDevice::Work::Work(const BoundProgram& bound) : program(bound) {
    for (std::uint32_t id = 0; id < bound.ops.size(); ++id) {
        const plan::Op& op = *bound.ops[id].op;
        const Lane other = plan::is_copy(op.kind) ? copies : communication;
        ops[op.stream == plan::Stream::compute ? compute : other].push_back(id);
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
    inputs_ = &inputs;
    const Validation& validation = program_.validation;
    const auto end = static_cast<std::uint32_t>(program_.ops.size());
    if (amendment_) {
        perform({&steps_, 0, validation.first});
        if (to_validate_ && !validated_as_taken()) perform({&steps_, 0, validation.first});
    }
    perform({&steps_, validation.end, end});
    if (guard_) guard_->end_of_step();
    to_validate_ = amendment_.has_value();
    taken_ = inputs;
    taken_.tokens = taken_.targets = {};
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
    perform({&steps_, program_.validation.first, program_.validation.end});
    to_validate_ = false;
    if (!amended()) return true;
    const StepInputs* const inputs = inputs_;
    inputs_ = &taken_;
    perform({&*amendment_, 0, static_cast<std::uint32_t>(amendment_->program.ops.size())});
    inputs_ = inputs;
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
    ORRERY_CHECK(!failed_.load(), "a device that has failed performs no more steps");
    stretch_ = stretch;
    plan::StreamCounts before{};
    for (std::uint32_t id = 0; id < stretch.first; ++id)
        ++before[plan::index_of(op(id).op->stream)];
    for (std::size_t s = 0; s < before.size(); ++s)
        ended_[s].store(before[s], std::memory_order_relaxed);
    const std::uint32_t begun = begun_.fetch_add(1) + 1;
    begun_.notify_all();
    walk(compute);
    for (const Follower& follower : followers_)
        for (std::uint32_t done = follower.done.load(); follower.thread.joinable() && done != begun;
             done = follower.done.load())
            follower.done.wait(done);
    if (failed_.load()) std::rethrow_exception(cause_);
}

void CpuDevice::serve(Follower& follower) {
    for (std::uint32_t begun = 0;; ++begun) {
        begun_.wait(begun);
        if (leaving_.load()) return;
        walk(follower.lane);
        follower.done.store(begun + 1);
        follower.done.notify_all();
    }
}

void CpuDevice::walk(Lane lane) {
    const std::vector<std::uint32_t>& ops = stretch_.work->ops[lane];
    try {
        for (auto id = std::lower_bound(ops.begin(), ops.end(), stretch_.first);
             id != ops.end() && *id < stretch_.end; ++id) {
            const BoundOp& bound = op(*id);
            for (const plan::Wait& wait : bound.waits)
                wait_for(wait);
            perform(*id);
            auto& ended = ended_[plan::index_of(bound.op->stream)];
            ended.fetch_add(1, std::memory_order_release);
            ended.notify_all();
        }
    } catch (const StepGivenUp&) {  // the other thread has the cause
    } catch (...) {
        fail(std::current_exception());
    }
}

void CpuDevice::wait_for(const plan::Wait& wait) {
    auto& ended = ended_[plan::index_of(wait.stream)];
    std::uint32_t count = ended.load(std::memory_order_acquire);
    while (count < wait.count && !failed_.load()) {
        ended.wait(count, std::memory_order_acquire);
        count = ended.load(std::memory_order_acquire);
    }
    if (failed_.load(std::memory_order_relaxed)) throw StepGivenUp{};
}

void CpuDevice::perform(std::uint32_t id) {
    const BoundOp& bound = op(id);
    if (options_.delay_seed != 0) {
        const RandomKey key{options_.delay_seed, kDelaySite,
                            static_cast<std::uint32_t>(inputs_->step)};
        if (uniform(key, id) < 0.2)
            std::this_thread::sleep_for(
                std::chrono::microseconds(static_cast<int>(400 * uniform(key, id + (1U << 31)))));
    }
    if (guard_) return perform_alone(id);
    if (options_.poison) poison(bound);
    run_op(id);
}

// Ops that wait for other ranks hold up those of this one. That closes no circle: what another rank
// needs of this one's, it gets by communication, whose order all ranks share.
void CpuDevice::perform_alone(std::uint32_t id) {
    const std::lock_guard alone(guard_mutex_);
    const BoundOp& bound = op(id);
    if (options_.poison) {
        poison(bound);
        for (const Birth& birth : bound.births)
            guard_->accept(birth.offset, birth.bytes);
    }
    guard_->begin(bound);
    run_op(id);
    guard_->end(bound);
}

void CpuDevice::poison(const BoundOp& bound) {
    for (const Birth& birth : bound.births)
        std::memset(arena_ + birth.offset, 0xff, static_cast<std::size_t>(birth.bytes));
}

void CpuDevice::run_op(std::uint32_t id) {
    OpTime time;
    time.begin = now();
    const BoundOp& bound = op(id);
    const std::uint64_t number =
        recorder_ != nullptr ? recorder_->begin(bound, inputs_->step, time.begin) : 0;
    const bool computes = bound.op->stream == plan::Stream::compute;
    if (plan::is_copy(bound.op->kind))
        copy(bound);
    else
        performer_.perform(bound, *inputs_, computes ? compute_kernels_ : communication_kernels_);
    time.end = now();
    if (recorder_ != nullptr) recorder_->end(number, time.end);
    if (stretch_.work != &steps_) return;
    times_[id] = {time.begin + options_.clock_offset_ns, time.end + options_.clock_offset_ns};
}

std::optional<double> CpuDevice::computed_s() const {
    std::int64_t nanoseconds = 0;
    for (const std::uint32_t id : steps_.ops[compute])
        nanoseconds += times_[id].end - times_[id].begin;
    return static_cast<double>(nanoseconds) * 1e-9;
}

void CpuDevice::copy(const BoundOp& bound) {
    const Operand &from = bound.reads[0], &to = bound.writes[0];
    const auto bytes = static_cast<std::size_t>(from.bytes());
    if (bound.op->kind == plan::OpKind::read_disk)
        read(from.offset, {arena_ + to.offset, bytes});
    else if (bound.op->kind == plan::OpKind::write_disk)
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
        ended.store(kAll);
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
