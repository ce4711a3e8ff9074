// How many steps lie between two checkpoints where the scenario leaves that to what is measured.
//
// What a checkpoint costs is the time C that training stands still for it; what it saves is, at a
// failure, the work since the one before. With a mean time M between failures both together are
// least for an interval of √(2·C·M) (Young 1974, "A first order approximation to the optimum
// checkpoint interval"), and with failures while one is written and while the run starts again
// included, of √(2CM)·(1 + ⅓·√(C/2M) + C/18M) − C, for C < 2M, else M (Daly 2006, "A higher order
// estimate of the optimum checkpoint interval for restart dumps"). An asynchronous save does not
// begin before the one before is on the disk, so that an interval is no shorter than that takes;
// and the stall is at most 3.5 % of the time, what CheckFreq holds to (Mohan 2021).
#pragma once

#include <cstdint>
#include <deque>

namespace orrery::runtime {

inline constexpr double kMostStall = 0.035;

// Interruptions of 16,384 GPUs in 54 days that nobody had planned: 419 (Llama 3, arXiv 2407.21783),
// so that one device fails once in 50,677 hours.
inline constexpr double kHoursBetweenFailuresOfADevice = 54.0 * 24.0 * 16384.0 / 419.0;

struct IntervalMeasures {
    double step_s = 0;                  // a step, without any save
    double stall_s = 0;                 // that training stood still for a save
    double write_s = 0;                 // from then until it could be loaded
    double mean_time_to_failure_s = 0;  // of the whole run
};

// At least 1.
std::int64_t steps_between_checkpoints(const IntervalMeasures& measures);

struct IntervalChoice {
    std::int64_t steps = 0;
    IntervalMeasures measures;
    // Of the time of training.
    double stall_share() const {
        return measures.stall_s / (measures.stall_s + static_cast<double>(steps) * measures.step_s);
    }
};

// When to save, as the run goes on. The first save comes after a few steps, to be measured; the
// interval changes only by a lot, so that it can be told.
class CheckpointInterval {
  public:
    // `every_steps` 0: measured, with this mean time to failure.
    CheckpointInterval(std::int64_t every_steps, double mean_time_to_failure_s)
        : every_steps_(every_steps), mean_time_to_failure_s_(mean_time_to_failure_s) {}

    bool measured() const { return every_steps_ == 0; }

    // Whether to save after this step, all steps of this process being told.
    bool due(std::int64_t step);
    void saved() { since_save_ = 0; }

    // For whoever decides: the others are told by set().
    void stepped(double time_s);
    // What the interval should be after one more save, by the medians of the last steps and saves;
    // the same as before where it is near enough.
    IntervalChoice choose(double stall_s, double write_s);
    std::int64_t chosen() const { return chosen_; }
    void set(std::int64_t steps) { chosen_ = steps; }

  private:
    std::int64_t every_steps_;
    double mean_time_to_failure_s_;
    std::int64_t chosen_ = 0;  // 0: none yet
    std::int64_t since_save_ = 0;
    std::deque<double> times_, stalls_, writes_;  // the last ones
};

}  // namespace orrery::runtime
