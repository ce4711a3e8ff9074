#include "runtime/train/checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::runtime {
namespace {

constexpr std::int64_t kFirstSave = 4;  // after three steps of warm-up
constexpr std::size_t kTimesKept = 20, kSavesKept = 5;
constexpr double kWorthChanging = 0.25;  // the cost is flat around the best interval
constexpr double kMostSteps = 1e9;

void keep(std::deque<double>& last, double value, std::size_t most) {
    last.push_back(value);
    if (last.size() > most) last.pop_front();
}

// Of two in the middle the upper one; 0 of none.
double median_of(const std::deque<double>& values) {
    std::vector<double> sorted(values.begin(), values.end());
    if (sorted.empty()) return 0;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
}

double best_interval_s(double cost_s, double failure_s) {
    if (cost_s >= 2 * failure_s) return failure_s;
    const double young = std::sqrt(2 * cost_s * failure_s);
    const double ratio = cost_s / (2 * failure_s);
    return young * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

}  // namespace

std::int64_t steps_between_checkpoints(const IntervalMeasures& measures) {
    const double step_s = std::max(measures.step_s, 1e-9);
    const double best = best_interval_s(measures.stall_s, measures.mean_time_to_failure_s) / step_s;
    // stall ≤ share · (stall + steps · step)
    const double least_for_stall = measures.stall_s * (1 - kMostStall) / kMostStall / step_s;
    const double least_for_write = (measures.stall_s + measures.write_s) / step_s;
    const double steps =
        std::max({1.0, std::round(best), std::ceil(least_for_stall), std::ceil(least_for_write)});
    return static_cast<std::int64_t>(std::min(steps, kMostSteps));
}

bool CheckpointInterval::due(std::int64_t step) {
    if (!measured()) return step % every_steps_ == 0;
    return ++since_save_ >= (chosen_ > 0 ? chosen_ : kFirstSave);
}

void CheckpointInterval::stepped(double time_s) {
    keep(times_, time_s, kTimesKept);
}

IntervalChoice CheckpointInterval::choose(double stall_s, double write_s) {
    keep(stalls_, stall_s, kSavesKept);
    keep(writes_, write_s, kSavesKept);
    IntervalChoice choice;
    choice.measures = {median_of(times_), median_of(stalls_), median_of(writes_),
                       mean_time_to_failure_s_};
    choice.steps = steps_between_checkpoints(choice.measures);
    const double change = std::abs(static_cast<double>(choice.steps - chosen_));
    const bool stalls_more =
        chosen_ > 0 && IntervalChoice{chosen_, choice.measures}.stall_share() > kMostStall;
    if (chosen_ > 0 && !stalls_more && change <= kWorthChanging * static_cast<double>(chosen_))
        choice.steps = chosen_;
    return choice;
}

}  // namespace orrery::runtime
