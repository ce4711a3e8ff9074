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
constexpr std::size_t kMostTries = 3;  // for each sample that counts

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
    std::vector<double> all, quiet;
    const auto wanted = static_cast<std::size_t>(sampling.samples);
    while (quiet.size() < wanted && all.size() < kMostTries * wanted) {
        ranks.barrier(GroupKind::world);
        const std::int64_t before = preemptions();
        all.push_back(seconds_of(calls, call) / calls);
        double disturbed = preemptions() != before ? 1 : 0;  // on one rank: for all
        ranks.all_reduce(GroupKind::world, DType::fp64, &disturbed, 1, runtime::Reduction::max);
        if (disturbed == 0) quiet.push_back(all.back());
    }
    if (sampling.count != nullptr && ranks.rank() == 0) {
        sampling.count->taken += static_cast<std::int64_t>(all.size());
        sampling.count->dropped += static_cast<std::int64_t>(all.size() - quiet.size());
    }
    double mean = median(2 * quiet.size() > wanted ? std::move(quiet) : std::move(all)) /
                  static_cast<double>(ranks.mesh().ranks());
    ranks.all_reduce(GroupKind::world, DType::fp64, &mean, 1);
    return mean;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace orrery::measure
