// What is kept of a run's steps until its end: as much after a million of them as after a thousand.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/train/trainer.hpp"

namespace orrery::cli {

class StepSummary {
  public:
    void add(const runtime::StepReport& step);

    bool empty() const { return count_ == 0; }
    // Of at least one step.
    double first_loss() const { return first_loss_; }
    const runtime::StepReport& last() const { return last_; }

    // Of the newest steps that count, 1,000 at most: without 3 of warm-up, of fewer than 4 the
    // last; where the batch grows, only steps with the last one's.
    std::vector<double> times_s() const { return {times_s_.begin(), times_s_.end()}; }
    // Their median.
    double time_s() const;
    // Of the time of all steps but the first, before which nothing can be read ahead.
    double data_wait_share() const;
    // The same in seconds, of a step in the mean; nothing of one step alone.
    std::optional<double> data_wait_s() const;

  private:
    std::int64_t count_ = 0;
    double first_loss_ = 0;
    runtime::StepReport last_;
    std::int64_t of_this_batch_ = 0;  // steps with as many samples as the last
    std::deque<double> times_s_;
    double waited_s_ = 0, all_s_ = 0;  // but the first
};

}  // namespace orrery::cli
