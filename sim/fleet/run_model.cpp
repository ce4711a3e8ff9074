#include "sim/fleet/run_model.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/log2.hpp"
#include "sim/engine/uneven.hpp"

namespace orrery::sim {
namespace {

constexpr double kLogOfTwo = 0.6931471805599453;

// e^x − 1, x ≥ 0: libm's differs between machines, and e^x itself loses what small x have.
double exp_minus_one(double x) {
    if (x < 1e-5) return x + x * x / 2;
    // Far beyond any run: a segment that never ends.
    return x > 60 ? 1e26 : exp_of(x) - 1;
}

// Of all failures, those that only storage helps with.
double share_of_storage(const RunModel& run) {
    if (run.memory_interval_s <= 0) return 1;
    double with_memory = 0;
    for (const RunCause& cause : run.causes)
        if (cause.kills_nodes && !cause.silent) with_memory += cause.per_s;
    const double all = run.failures_per_s();
    return all > 0 ? 1 - with_memory / all : 1;
}

// What copies into memory add to each second of work.
double memory_overhead(const RunModel& run) {
    return run.memory_interval_s > 0 ? run.memory_stall_s / run.memory_interval_s : 0;
}

}  // namespace

double RunModel::failures_per_s() const {
    double sum = 0;
    for (const RunCause& cause : causes)
        sum += cause.per_s;
    return sum;
}

double RunModel::recovery_s() const {
    const double all = failures_per_s();
    if (all <= 0) return 0;
    double sum = 0;
    for (const RunCause& cause : causes) {
        const bool in_memory = memory_interval_s > 0 && cause.kills_nodes && !cause.silent;
        sum += cause.per_s *
               (cause.detection_s + diagnosis_s + restart_s +
                (cause.replaces_node ? replacement_s : 0) + (in_memory ? memory_load_s : load_s));
    }
    return sum / all;
}

double expected_wall_s(const RunModel& run) {
    const double rate = run.failures_per_s();
    const double stretched = 1 + memory_overhead(run);
    const double segments = run.work_s / run.interval_s;
    const double segment = run.interval_s * stretched + run.stall_s;
    // The last segment ends without a checkpoint.
    const double unsaved = run.stall_s;
    if (rate <= 0) return segments * segment - unsaved;
    const double of_storage = share_of_storage(run);
    const double recovery = run.recovery_s() + of_storage * run.write_s;
    if (of_storage == 1)
        return segments * (1 / rate + recovery) * exp_minus_one(rate * segment) - unsaved;
    // To first order in what a failure costs: those that memory helps with lose half of what lies
    // between two copies.
    const double lost_to_storage =
        (1 / rate) * exp_minus_one(rate * segment) / (rate * segment) - 1 / rate;
    const double lost = of_storage * lost_to_storage + (1 - of_storage) * run.memory_interval_s / 2;
    return segments * segment / std::max(1e-9, 1 - rate * lost) * (1 + rate * recovery) - unsaved;
}

double best_interval_s(RunModel run, double step_s) {
    const auto wall = [&](double interval) {
        run.interval_s = interval;
        return expected_wall_s(run);
    };
    // It falls and then rises: golden section over the logarithm.
    constexpr double kGolden = 0.6180339887498949;
    double low = std::max(step_s, run.write_s), high = std::max(low, run.work_s);
    for (int i = 0; i < 80 && high > low * (1 + 1e-4); ++i) {
        const double ratio = high / low;
        const double share = exp_of(kGolden * kLogOfTwo * log2_of(ratio));
        const double a = high / share, b = low * share;
        if (wall(a) <= wall(b))
            high = b;
        else
            low = a;
    }
    const double steps = std::max(1.0, std::round(std::sqrt(low * high) / step_s));
    return steps * step_s;
}

double young_daly_s(const RunModel& run) {
    const double rate = run.failures_per_s();
    if (rate <= 0) return run.work_s;
    return std::max(0.0, std::sqrt(2 * run.stall_s / rate) - run.stall_s);
}

}  // namespace orrery::sim
