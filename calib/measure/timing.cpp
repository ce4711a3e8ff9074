#include "calib/measure/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace orrery::measure {
namespace {

using plan::DType;
using plan::GroupKind;
using Clock = std::chrono::steady_clock;

constexpr double kMostCallsOfSample = 10000;

double seconds_of(int calls, const std::function<void()>& call) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i)
        call();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double timed(runtime::Communicator& ranks, const Sampling& sampling,
             const std::function<void()>& call) {
    double longest = seconds_of(1, call);
    for (int i = 1; i < sampling.warm_ups; ++i)
        longest = seconds_of(1, call);
    // As many on every rank: the calls may be communication.
    ranks.all_reduce(GroupKind::world, DType::fp64, &longest, 1, runtime::Reduction::max);
    const int calls = static_cast<int>(
        std::clamp(std::ceil(sampling.seconds_per_sample / longest), 1.0, kMostCallsOfSample));
    std::vector<double> samples;
    for (int i = 0; i < sampling.samples; ++i) {
        ranks.barrier(GroupKind::world);
        samples.push_back(seconds_of(calls, call) / calls);
    }
    double mean = median(std::move(samples)) / static_cast<double>(ranks.mesh().ranks());
    ranks.all_reduce(GroupKind::world, DType::fp64, &mean, 1);
    return mean;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace orrery::measure
