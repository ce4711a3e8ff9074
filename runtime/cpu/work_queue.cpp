#include "runtime/cpu/work_queue.hpp"

#include <chrono>
#include <utility>

namespace orrery::runtime {

void CpuEvent::pass() {
    if (timed_)
        at_.store(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count(),
                  std::memory_order_relaxed);
    passed_.fetch_add(1, std::memory_order_release);
    passed_.notify_all();
}

bool CpuEvent::passed(std::uint32_t number) const {
    const std::uint32_t passed = passed_.load(std::memory_order_acquire);
    return static_cast<std::int32_t>(number - passed) <= 0;
}

void CpuEvent::await(std::uint32_t number) const {
    std::uint32_t passed = passed_.load(std::memory_order_acquire);
    while (static_cast<std::int32_t>(number - passed) > 0) {
        passed_.wait(passed, std::memory_order_acquire);
        passed = passed_.load(std::memory_order_acquire);
    }
}

void WorkFailure::when_failed(std::function<void(const std::exception_ptr&)> tell) {
    tell_ = std::move(tell);
}

// Whoever is told ends the run, which releases work of other queues: that fails for this cause.
void WorkFailure::note(const std::exception_ptr& cause) {
    {
        const std::lock_guard lock(mutex_);
        if (cause_) return;
        cause_ = cause;
    }
    any_.store(true, std::memory_order_release);
    if (tell_) tell_(cause);
}

void WorkFailure::rethrow() const {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(cause_);
}

void WorkQueues::add(WorkQueue& queue) {
    const std::lock_guard lock(mutex_);
    all_.push_back(&queue);
}

void WorkQueues::remove(WorkQueue& queue) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, &queue);
}

void WorkQueues::wake_due() {
    if (!due_.exchange(false, std::memory_order_acq_rel)) return;
    const std::lock_guard lock(mutex_);
    for (WorkQueue* queue : all_)
        queue->wake_if_due();
}

WorkQueue::WorkQueue(WorkQueues& queues, By by) : queues_(queues), by_(by) {
    queues_.add(*this);
    if (by == By::own_thread) thread_ = std::thread([this] { serve(); });
}

WorkQueue::~WorkQueue() {
    if (thread_.joinable()) {
        {
            const std::lock_guard lock(mutex_);
            leaving_ = true;
        }
        filled_.notify_one();
        thread_.join();
    }
    queues_.remove(*this);
}

// Whether what is in front can be taken.
bool WorkQueue::due() const {
    if (taking_ || items_.empty()) return false;
    const Item& front = items_.front();
    return front.what != Item::What::await || front.event->passed(front.number);
}

void WorkQueue::put(const Item& item) {
    {
        const std::lock_guard lock(mutex_);
        items_.push_back(item);
    }
    wake_if_due();
}

void WorkQueue::wake_if_due() {
    {
        const std::lock_guard lock(mutex_);
        if (!asleep_ || !due()) return;
        asleep_ = false;
    }
    filled_.notify_one();
}

// What is due.
void WorkQueue::take_front(Lock& lock) {
    const Item item = items_.front();
    items_.pop_front();
    if (item.what == Item::What::await) return;
    taking_ = true;
    lock.unlock();
    take(item);
    lock.lock();
    taking_ = false;
}

// By a thread that waits for a mark of this queue; whether there was anything that it could take.
bool WorkQueue::take_for_another() {
    Lock lock(mutex_);
    if (by_ != By::own_thread || !due()) return false;
    take_front(lock);
    if (items_.empty()) emptied_.notify_all();
    queues_.note_due();
    return true;
}

void WorkQueue::await_here(const Item& item) {
    WorkQueue* const queue = item.event->queue();
    while (!item.event->passed(item.number)) {
        if (queue != nullptr && queue->take_for_another()) continue;
        queues_.wake_due();
        item.event->await(item.number);
    }
}

void WorkQueue::work_off() {
    if (by_ != By::who_waits) return;
    Lock lock(mutex_);
    while (!items_.empty()) {
        if (due()) {
            take_front(lock);
            continue;
        }
        const Item item = items_.front();
        items_.pop_front();
        lock.unlock();
        await_here(item);
        lock.lock();
    }
    lock.unlock();
    queues_.wake_due();
}

void WorkQueue::finish() {
    if (by_ == By::who_waits) return work_off();
    Lock lock(mutex_);
    emptied_.wait(lock, [&] { return !taking_ && items_.empty(); });
}

void WorkQueue::serve() {
    Lock lock(mutex_);
    for (;;) {
        while (due())
            take_front(lock);
        if (items_.empty() && !taking_) {
            emptied_.notify_all();
            if (leaving_) return;
        }
        lock.unlock();
        queues_.wake_due();
        lock.lock();
        // Who woke it may find that another thread has taken the front meanwhile.
        while (!due() && !(leaving_ && items_.empty() && !taking_)) {
            asleep_ = true;
            filled_.wait(lock);
        }
        asleep_ = false;
    }
}

// Marks are passed whatever fails, so that nobody waits for ever.
void WorkQueue::take(const Item& item) {
    if (item.what == Item::What::pass) {
        item.event->pass();
        return queues_.note_due();
    }
    queues_.wake_due();
    if (queues_.failure.any()) return;
    try {
        item.work->perform(item.number);
    } catch (...) {
        queues_.failure.note(std::current_exception());
    }
}

}  // namespace orrery::runtime
