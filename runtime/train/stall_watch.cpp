#include "runtime/train/stall_watch.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {

StallWatch::StallWatch(const plan::Health& limits, std::function<void(const HealthNotice&)> said)
    : said_(std::move(said)), limit_(limits), thread_([this] { watch(); }) {}

StallWatch::~StallWatch() {
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

HealthNotice StallWatch::notice(bool begins, std::int64_t step, double waited_s,
                                double allowed_s) const {
    HealthNotice notice;
    notice.ailment = Ailment::stall;
    notice.begins = begins;
    notice.step = step;
    notice.figures = {{"waited_s", waited_s}, {"allowed_s", allowed_s}};
    notice.message =
        begins ? fmt::format("no step for {:.3g} s; {:.3g} s are allowed", waited_s, allowed_s)
               : fmt::format("the run goes on: step {} came after {:.3g} s", step, waited_s);
    return notice;
}

void StallWatch::stepped(std::int64_t step, double time_s) {
    const std::lock_guard lock(mutex_);
    const double allowed_s = limit_.seconds();
    const double waited_s = std::chrono::duration<double>(Clock::now() - last_).count();
    const bool was_stalled = std::exchange(stalled_, false);
    limit_.stepped(time_s);
    last_ = Clock::now();
    step_ = step;
    changed_.notify_all();
    if (was_stalled) said_(notice(false, step, waited_s, allowed_s));
}

void StallWatch::saved(double seconds) {
    const std::lock_guard lock(mutex_);
    limit_.saved(seconds);
}

void StallWatch::watch() {
    std::unique_lock lock(mutex_);
    while (!leaving_) {
        const double allowed_s = limit_.seconds();
        const auto until = last_ + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(allowed_s));
        if (stalled_) {
            changed_.wait(lock, [&] { return leaving_ || !stalled_; });
            continue;
        }
        if (Clock::now() < until) {
            changed_.wait_until(lock, until);
            continue;
        }
        stalled_ = true;
        const double waited_s = std::chrono::duration<double>(Clock::now() - last_).count();
        said_(notice(true, step_ + 1, waited_s, allowed_s));
    }
}

}  // namespace orrery::runtime
