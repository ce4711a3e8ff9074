#include "runtime/flight/flight_recorder.hpp"

#include <algorithm>

#include "plan/ir/kinds.hpp"

namespace orrery::runtime {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::int64_t kNotIssued = -1;  // performed when it begins

}  // namespace

std::uint64_t FlightRecorder::begin(const BoundOp& bound, std::int64_t step, std::int64_t now) {
    return begin(bound, step, now, kNotIssued);
}

std::uint64_t FlightRecorder::begin_issue(const BoundOp& bound, std::int64_t step,
                                          std::int64_t now) {
    return begin(bound, step, now, 0);
}

std::uint64_t FlightRecorder::begin(const BoundOp& bound, std::int64_t step, std::int64_t now,
                                    std::int64_t issued) {
    const std::uint64_t number = begun_.fetch_add(1, kRelaxed) + 1;
    Slot& slot = slots_[number % kOps];
    slot.number.store(0, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    slot.op.store(bound.op, kRelaxed);
    slot.step.store(step, kRelaxed);
    slot.layer.store(bound.layer, kRelaxed);
    slot.micro_batch.store(bound.micro_batch, kRelaxed);
    slot.begin.store(now, kRelaxed);
    slot.issued.store(issued, kRelaxed);
    slot.end.store(0, kRelaxed);
    if (plan::is_communication(bound.op->kind())) set_traffic(slot, bound);
    slot.number.store(number, std::memory_order_release);
    return number;
}

void FlightRecorder::set_traffic(Slot& slot, const BoundOp& bound) {
    std::int64_t bytes = 0;
    std::array<std::int32_t, 2> peers{-1, -1};
    for (const BoundTransfer& transfer : bound.transfers) {
        bytes += transfer.bytes;
        const auto peer = static_cast<std::int32_t>(transfer.peer);
        if (peers[0] < 0 || peers[0] == peer)
            peers[0] = peer;
        else if (peers[1] < 0)
            peers[1] = peer;
    }
    if (bound.transfers.empty())
        for (const Operand& written : bound.writes)
            bytes += written.bytes();
    slot.bytes.store(bytes, kRelaxed);
    slot.first_peer.store(peers[0], kRelaxed);
    slot.second_peer.store(peers[1], kRelaxed);
}

void FlightRecorder::issued(std::uint64_t number, std::int64_t now) {
    Slot& slot = slots_[number % kOps];
    if (slot.number.load(kRelaxed) == number) slot.issued.store(now, kRelaxed);
}

// One that others have passed by so far is not there any more.
void FlightRecorder::end(std::uint64_t number, std::int64_t now) {
    Slot& slot = slots_[number % kOps];
    if (slot.number.load(kRelaxed) == number) slot.end.store(now, kRelaxed);
}

std::optional<RecordedOp> FlightRecorder::read(const Slot& slot, std::uint64_t number) {
    if (slot.number.load(std::memory_order_acquire) != number) return std::nullopt;
    RecordedOp op;
    op.number = number;
    op.op = slot.op.load(kRelaxed);
    op.step = slot.step.load(kRelaxed);
    op.layer = slot.layer.load(kRelaxed);
    op.micro_batch = slot.micro_batch.load(kRelaxed);
    op.begin = slot.begin.load(kRelaxed);
    if (const std::int64_t issued = slot.issued.load(kRelaxed); issued != kNotIssued)
        op.issued = issued;
    op.end = slot.end.load(kRelaxed);
    if (plan::is_communication(op.op->kind())) {
        op.bytes = slot.bytes.load(kRelaxed);
        op.peers = {slot.first_peer.load(kRelaxed), slot.second_peer.load(kRelaxed)};
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.number.load(kRelaxed) != number) return std::nullopt;
    return op;
}

std::vector<RecordedOp> FlightRecorder::ops() const {
    std::vector<RecordedOp> all;
    const std::uint64_t last = begun_.load();
    for (std::uint64_t number = last > kOps ? last - kOps + 1 : 1; number <= last; ++number)
        if (const auto op = read(slots_[number % kOps], number)) all.push_back(*op);
    return all;
}

void FlightRecorder::watch(const Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    communicator_ = &communicator;
}

void FlightRecorder::leave() {
    const std::lock_guard lock(mutex_);
    if (communicator_ != nullptr) waiting_ = communicator_->waiting();
    communicator_ = nullptr;
}

std::optional<Waiting> FlightRecorder::waiting() const {
    const std::lock_guard lock(mutex_);
    return communicator_ != nullptr ? communicator_->waiting() : waiting_;
}

}  // namespace orrery::runtime
