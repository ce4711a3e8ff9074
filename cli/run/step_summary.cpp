#include "cli/run/step_summary.hpp"

#include <algorithm>

namespace orrery::cli {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;
constexpr std::size_t kMostTimes = 1000;

}  // namespace

void StepSummary::add(const runtime::StepReport& step) {
    if (count_ == 0) {
        first_loss_ = step.loss;
    } else {
        waited_s_ += step.data_wait_s;
        all_s_ += step.time_s;
    }
    if (count_ > 0 && step.samples != last_.samples) {
        times_s_.clear();
        of_this_batch_ = 0;
    }
    count_ += 1;
    of_this_batch_ += 1;
    last_ = step;
    times_s_.push_back(step.time_s);
    const bool of_warm_up = of_this_batch_ > 1 && of_this_batch_ <= kWarmUpSteps + 1;
    if (of_warm_up || times_s_.size() > kMostTimes) times_s_.pop_front();
}

double StepSummary::time_s() const {
    std::vector<double> times = times_s();
    std::sort(times.begin(), times.end());
    const std::size_t middle = times.size() / 2;
    return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

double StepSummary::data_wait_share() const {
    return all_s_ > 0 ? waited_s_ / all_s_ : 0;
}

std::optional<double> StepSummary::data_wait_s() const {
    if (count_ < 2) return std::nullopt;
    return waited_s_ / static_cast<double>(count_ - 1);
}

}  // namespace orrery::cli
