// Says that a run stands still while it does. A thread of its own, since the others wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/train/health.hpp"

namespace orrery::runtime {

class StallWatch {
  public:
    // `said` is called on the watch's thread when a stall begins, and on that of stepped() when it
    // is over; not at the same time. It must not call the watch.
    StallWatch(const plan::Health& limits, std::function<void(const HealthNotice&)> said);
    ~StallWatch();
    StallWatch(const StallWatch&) = delete;
    StallWatch& operator=(const StallWatch&) = delete;

    void stepped(std::int64_t step, double time_s);
    void saved(double seconds);

  private:
    using Clock = std::chrono::steady_clock;

    void watch();
    HealthNotice notice(bool begins, std::int64_t step, double waited_s, double allowed_s) const;

    std::function<void(const HealthNotice&)> said_;
    std::mutex mutex_;
    std::condition_variable changed_;
    StallLimit limit_;
    Clock::time_point last_ = Clock::now();
    std::int64_t step_ = 0;
    bool stalled_ = false;
    bool leaving_ = false;
    std::thread thread_;  // last: it uses the others
};

}  // namespace orrery::runtime
