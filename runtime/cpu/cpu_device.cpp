#include "runtime/cpu/cpu_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "plan/ir/check.hpp"
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
                     Communicator& communicator, const CpuOptions& options)
    : program_(program),
      communicator_(communicator),
      options_(options),
      memory_(allocate(program.memory_bytes() + (options.guard ? 2 * ArenaGuard::kZone : 0))),
      arena_(memory_.get() + (options.guard ? ArenaGuard::kZone : 0)),
      compute_kernels_(options.threads),
      performer_(program, scenario, communicator, arena_, compute_kernels_),
      times_(program.ops.size()) {
    if (options.guard) guard_ = std::make_unique<ArenaGuard>(program, communicator.rank(), arena_);
    if (program.disk_bytes > 0)
        disk_ = std::make_unique<DiskTier>(scenario.run.offload_path, program.disk_bytes);
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
        const plan::Op& op = *program.ops[id].op;
        auto& ops = plan::is_copy(op.kind) ? copies_.ops : communication_.ops;
        (op.stream == plan::Stream::compute ? compute_ : ops).push_back(id);
    }
    for (Follower* follower : {&communication_, &copies_})
        if (!follower->ops.empty())
            follower->thread = std::thread([this, follower] { serve(*follower); });
}

CpuDevice::~CpuDevice() {
    leaving_.store(true);
    step_.fetch_add(1);
    step_.notify_all();
    for (Follower* follower : {&communication_, &copies_})
        if (follower->thread.joinable()) follower->thread.join();
}

void CpuDevice::run(const StepInputs& inputs) {
    ORRERY_CHECK(!failed_.load(), "a device that has failed performs no more steps");
    inputs_ = &inputs;
    for (auto& ended : ended_)
        ended.store(0, std::memory_order_relaxed);
    const std::uint32_t step = step_.fetch_add(1) + 1;
    step_.notify_all();
    walk(compute_);
    for (const Follower* follower : {&communication_, &copies_})
        for (std::uint32_t done = follower->done.load();
             follower->thread.joinable() && done != step; done = follower->done.load())
            follower->done.wait(done);
    if (failed_.load()) std::rethrow_exception(cause_);
    if (guard_) guard_->end_of_step();
}

void CpuDevice::serve(Follower& follower) {
    for (std::uint32_t step = 0;; ++step) {
        step_.wait(step);
        if (leaving_.load()) return;
        walk(follower.ops);
        follower.done.store(step + 1);
        follower.done.notify_all();
    }
}

void CpuDevice::walk(const std::vector<std::uint32_t>& ops) {
    try {
        for (const std::uint32_t id : ops) {
            const BoundOp& bound = program_.ops[id];
            for (const plan::Wait& wait : bound.waits)
                wait_for(wait);
            perform(id);
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
    const BoundOp& bound = program_.ops[id];
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
    const BoundOp& bound = program_.ops[id];
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
    OpTime& time = times_[id];
    time.begin = now();
    const BoundOp& bound = program_.ops[id];
    const bool computes = bound.op->stream == plan::Stream::compute;
    if (plan::is_copy(bound.op->kind))
        copy(bound);
    else
        performer_.perform(bound, *inputs_, computes ? compute_kernels_ : communication_kernels_);
    time.end = now();
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
