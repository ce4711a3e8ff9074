#include "sim/engine/uneven.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/scenario/diagnostic.hpp"
#include "sim/cost/log2.hpp"
#include "sim/engine/splitmix.hpp"

namespace orrery::sim {
namespace {

constexpr double kLnTwo = 0.6931471805599453;

// In [−1, 1), of 53 bits.
double uniform(std::uint64_t bits) {
    return static_cast<double>(bits >> 11) * 0x1p-52 - 1;
}

plan::ScenarioError too_long(std::uint64_t rank, double seconds) {
    plan::Diagnostic fault;
    fault.code = "S064";
    fault.pointer = "/cluster/slow_devices";
    fault.message = "an op takes longer than can be simulated";
    fault.arithmetic = fmt::format(
        "a kernel of rank {} with slow_devices and jitter = {:.3g} s > 1000 s", rank, seconds);
    return plan::ScenarioError(std::move(fault));
}

}  // namespace

double normal_draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    std::uint64_t state = split_mixed(split_mixed(split_mixed(seed) ^ stream) ^ index);
    while (true) {
        state = split_mixed(state);
        const double u = uniform(state);
        state = split_mixed(state);
        const double v = uniform(state);
        const double s = u * u + v * v;
        if (s >= 1 || s < 0x1p-500) continue;
        return u * std::sqrt(-2 * kLnTwo * log2_of(s) / s);
    }
}

// (e^(x/2^10))^(2^10), the inner one by its series.
double exp_of(double x) {
    const double part = x * 0x1p-10;
    double sum = 1;
    for (int n = 10; n >= 1; --n)
        sum = 1 + sum * part / n;
    for (int i = 0; i < 10; ++i)
        sum *= sum;
    return sum;
}

Uneven::Uneven(const plan::Cluster& cluster, plan::Rank rank, std::int64_t drawn_as)
    : slow_(cluster.slow_factor(rank)),
      jitter_(cluster.jitter),
      rank_(static_cast<std::uint64_t>(rank)),
      drawn_as_(static_cast<std::uint64_t>(drawn_as)) {
    const double sd = jitter_.relative_sd;
    log_sd_ = std::sqrt(kLnTwo * log2_of(1 + sd * sd));  // then the mean is 1, the deviation sd
    if (jitter_.any() && jitter_.per == plan::JitterPer::device) device_ = drawn(0, 0);
}

double Uneven::drawn(std::int64_t step, std::uint64_t op) const {
    const double z = normal_draw(static_cast<std::uint64_t>(jitter_.seed + step), drawn_as_, op);
    if (jitter_.distribution == plan::JitterDistribution::lognormal)
        return exp_of(log_sd_ * z - log_sd_ * log_sd_ / 2);
    return std::max(0.0, 1 + jitter_.relative_sd * z);
}

Picoseconds Uneven::of(std::uint32_t op, Picoseconds duration) const {
    constexpr double kLongest_ps = 1e15;
    const double takes =
        static_cast<double>(duration) * slow_ * (draws_each() ? drawn(step_, op) : device_);
    if (takes > kLongest_ps) throw too_long(rank_, takes / kPicosecondsPerSecond);
    return static_cast<Picoseconds>(takes + 0.5);
}

}  // namespace orrery::sim
