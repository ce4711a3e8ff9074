// What the events of a run say of an attempt: how far it came, what ended it, and until when the
// next one is to be heard.
#pragma once

#include <chrono>
#include <string_view>

#include "runtime/supervisor/restart_policy.hpp"
#include "runtime/train/health.hpp"

namespace orrery::runtime {

// What marks events for a supervisor among lines for people: the record separator of JSON text
// sequences (RFC 7464).
inline constexpr char kEventMark[] = "\x1e";

class AttemptEvents {
  public:
    using Clock = std::chrono::steady_clock;

    explicit AttemptEvents(const plan::Health& limits) : limit_(limits) {}

    // A line of JSON; one that is none says nothing.
    void read(std::string_view line);

    // Nothing has been heard for too long, or the run itself has said that it stands still.
    bool stalled(Clock::time_point now) const;
    double allowed_s() const { return limit_.seconds(); }
    Clock::time_point due() const;

    const Attempt& attempt() const { return attempt_; }

  private:
    // The run, if it lives, is to say first that it stands still.
    static constexpr double kMostAfterTheRunItself_s = 2;

    StallLimit limit_;
    Clock::time_point heard_ = Clock::now();
    bool says_stall_ = false;
    Attempt attempt_;
};

}  // namespace orrery::runtime
