#include "runtime/streams/step_ends.hpp"

#include <chrono>
#include <utility>

namespace orrery::runtime {

namespace {

constexpr std::chrono::microseconds kLook{50};  // between looks at what others do

}  // namespace

EndsInStream::EndsInStream(StreamDriver& driver, Stream stream, std::size_t slots)
    : driver_(driver), stream_(stream), inputs_(slots) {
    for (std::size_t slot = 0; slot < slots; ++slot)
        ended_.push_back(driver.create_event(false));
}

void EndsInStream::issued(const IssuedStep& step) {
    for (const Event done : step.done)
        driver_.wait(stream_, done);
    inputs_[step.slot] = step.inputs;
    driver_.issue(stream_, *this, static_cast<std::uint32_t>(step.slot));
    driver_.record(ended_[step.slot], stream_);
    slots_.push_back(step.slot);
    if (slots_.size() > ended_.size()) slots_.erase(slots_.begin());
}

void EndsInStream::perform(std::uint32_t slot) {
    if (tell_) tell_(inputs_[slot]);
}

void EndsInStream::await_all_but(std::int64_t steps, const std::function<void()>& meanwhile) {
    const std::int64_t last = std::ssize(slots_) - 1 - steps;
    if (last >= 0) driver_.await(ended_[slots_[static_cast<std::size_t>(last)]], meanwhile);
}

EndsOnThread::EndsOnThread(StreamDriver& driver,
                           std::function<void(const std::exception_ptr&)> failed)
    : driver_(driver), failed_(std::move(failed)), thread_([this] { serve(); }) {}

EndsOnThread::~EndsOnThread() {
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void EndsOnThread::issued(const IssuedStep& step) {
    {
        const std::lock_guard lock(mutex_);
        steps_.push_back(step);
    }
    changed_.notify_all();
}

void EndsOnThread::await_all_but(std::int64_t steps, const std::function<void()>& meanwhile) {
    std::unique_lock lock(mutex_);
    while (std::ssize(steps_) > steps && !cause_) {
        changed_.wait_for(lock, kLook);
        lock.unlock();
        meanwhile();
        lock.lock();
    }
    if (cause_) std::rethrow_exception(cause_);
}

void EndsOnThread::rethrow() {
    const std::lock_guard lock(mutex_);
    if (cause_) std::rethrow_exception(cause_);
}

bool EndsOnThread::leaving() {
    const std::lock_guard lock(mutex_);
    return leaving_;
}

// Whether it has; not where the device leaves before.
bool EndsOnThread::end(const IssuedStep& step) {
    for (const Event done : step.done)
        while (!driver_.passed(done)) {
            if (leaving()) return false;
            std::this_thread::sleep_for(kLook);
        }
    if (tell_) tell_(step.inputs);
    return true;
}

void EndsOnThread::serve() {
    try {
        for (;;) {
            IssuedStep step;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return leaving_ || !steps_.empty(); });
                if (leaving_) return;
                step = steps_.front();
            }
            if (!end(step)) return;
            {
                const std::lock_guard lock(mutex_);
                steps_.erase(steps_.begin());
            }
            changed_.notify_all();
        }
    } catch (...) {
        {
            const std::lock_guard lock(mutex_);
            cause_ = std::current_exception();
        }
        changed_.notify_all();
        failed_(cause_);
    }
}

}  // namespace orrery::runtime
