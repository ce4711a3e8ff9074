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

WorkQueue::WorkQueue(WorkFailure& failure, By by) : failure_(failure), by_(by) {
    if (by == By::own_thread) thread_ = std::thread([this] { serve(); });
}

WorkQueue::~WorkQueue() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
    }
    filled_.notify_one();
    thread_.join();
}

void WorkQueue::put(const Item& item) {
    bool wakes = false;
    {
        const std::lock_guard lock(mutex_);
        items_.push_back(item);
        wakes = std::exchange(idle_, false);
    }
    if (wakes) filled_.notify_one();
}

void WorkQueue::work_off() {
    std::vector<Item> taken;
    while (by_ == By::who_waits) {
        {
            const std::lock_guard lock(mutex_);
            if (items_.empty()) return;
            taken.swap(items_);
        }
        for (const Item& item : taken)
            take(item);
        taken.clear();
    }
}

void WorkQueue::finish() {
    if (by_ == By::who_waits) return work_off();
    std::unique_lock lock(mutex_);
    emptied_.wait(lock, [&] { return idle_ && items_.empty(); });
}

// All that is there is taken at once: whoever issues seldom meets who performs.
void WorkQueue::serve() {
    std::vector<Item> taken;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (items_.empty()) {
                idle_ = true;
                emptied_.notify_all();
                filled_.wait(lock, [&] { return leaving_ || !items_.empty(); });
                if (items_.empty()) return;
                idle_ = false;
            }
            taken.swap(items_);
        }
        for (const Item& item : taken)
            take(item);
        taken.clear();
    }
}

// Marks are passed whatever fails, so that nobody waits for ever.
void WorkQueue::take(const Item& item) {
    if (item.what == Item::What::pass) return item.event->pass();
    if (item.what == Item::What::await) return item.event->await(item.number);
    if (failure_.any()) return;
    try {
        item.work->perform(item.number);
    } catch (...) {
        failure_.note(std::current_exception());
    }
}

}  // namespace orrery::runtime
