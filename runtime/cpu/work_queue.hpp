// A stream of the CPU: what it is given is performed one after another, by a thread of its own or
// by the thread that waits for it.
//
// To wake a thread costs tens of microseconds, as much as many a kernel. So a mark wakes nobody by
// being passed: whoever passed it first looks whether it must wait itself for what stands behind
// the mark, and then performs that in the other queue's place (exposed communication is such work).
// Others are woken once it turns to work of its own, or falls asleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

class WorkQueue;

// An event of the CPU. Marks are counted modulo 2^32: who waits for the n-th of an event waits for
// n marks to have been passed, so that one that is recorded again is no other's.
class CpuEvent {
  public:
    explicit CpuEvent(bool timed) : timed_(timed) {}

    // One more is, in this queue, by the thread that issues.
    void record(WorkQueue& queue) {
        queue_.store(&queue, std::memory_order_relaxed);
        recorded_.fetch_add(1, std::memory_order_relaxed);
    }
    // Where it was recorded last; null: nowhere.
    WorkQueue* queue() const { return queue_.load(std::memory_order_relaxed); }
    // So many have been.
    std::uint32_t recorded() const { return recorded_.load(std::memory_order_relaxed); }

    void pass();
    bool passed(std::uint32_t number) const;
    void await(std::uint32_t number) const;
    // When it was passed last, of the steady clock; 0: not timed.
    std::int64_t nanoseconds() const { return at_.load(std::memory_order_relaxed); }

  private:
    bool timed_;
    std::atomic<WorkQueue*> queue_{nullptr};
    std::atomic<std::uint32_t> recorded_{0}, passed_{0};
    std::atomic<std::int64_t> at_{0};
};

// What was thrown first by the work of a driver's queues.
class WorkFailure {
  public:
    void when_failed(std::function<void(const std::exception_ptr&)> tell);
    // Tells of the first.
    void note(const std::exception_ptr& cause);
    bool any() const { return any_.load(std::memory_order_acquire); }
    void rethrow() const;

  private:
    std::function<void(const std::exception_ptr&)> tell_;
    mutable std::mutex mutex_;  // guards what follows
    std::exception_ptr cause_;
    std::atomic<bool> any_{false};
};

// The queues of a driver, of which each may wait for marks of the others.
class WorkQueues {
  public:
    WorkFailure failure;

    void add(WorkQueue& queue);
    void remove(WorkQueue& queue);

    // A mark was passed, or a queue was left by another's thread: the front of one may be due.
    void note_due() { due_.store(true, std::memory_order_release); }
    // Wakes the threads of queues whose front is. To be called by whoever noted it before it
    // performs anything else, sleeps or leaves; with no queue's lock.
    void wake_due();

  private:
    std::atomic<bool> due_{false};
    std::mutex mutex_;  // guards what follows
    std::vector<WorkQueue*> all_;
};

class WorkQueue {
  public:
    enum class By : std::uint8_t { own_thread, who_waits };

    // `queues` must outlive the queue. Work that comes to its turn once any has failed is dropped.
    WorkQueue(WorkQueues& queues, By by);
    // What was given is performed first, by a thread of its own.
    ~WorkQueue();
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    void perform(QueuedWork& work, std::uint32_t number) {
        put({Item::What::perform, number, &work, nullptr});
    }
    void pass(CpuEvent& event) {
        event.record(*this);
        put({Item::What::pass, 0, nullptr, &event});
    }
    void await(CpuEvent& event, std::uint32_t number) {
        put({Item::What::await, number, nullptr, &event});
    }

    // Returns once all that was given has been performed. From the thread that gives it.
    void finish();
    // Likewise where whoever waits performs; else returns at once.
    void work_off();
    // Wakes its thread where that sleeps though the front is due.
    void wake_if_due();

  private:
    struct Item {
        enum class What : std::uint8_t { perform, pass, await } what = What::perform;
        std::uint32_t number = 0;  // of the piece of work, or of the mark
        QueuedWork* work = nullptr;
        CpuEvent* event = nullptr;
    };
    using Lock = std::unique_lock<std::mutex>;

    void put(const Item& item);
    void serve();
    bool due() const;
    void take_front(Lock& lock);
    bool take_for_another();
    void take(const Item& item);
    void await_here(const Item& item);

    WorkQueues& queues_;
    const By by_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable filled_, emptied_;
    std::deque<Item> items_;  // not taken yet
    bool taking_ = false;     // some thread performs what was in front
    bool asleep_ = false;     // the queue's own thread
    bool leaving_ = false;
    std::thread thread_;
};

}  // namespace orrery::runtime
