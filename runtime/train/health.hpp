// What is wrong with a run that goes on all the same: its loss leaves, a rank computes more slowly
// than its peers, nothing happens any more. Said once when it begins and once when it ends. Whoever
// drives a run tells of every step and passes on what comes back; none of this changes the run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::runtime {

enum class Ailment : std::uint8_t { not_finite, diverging, straggler, stall };
std::string_view name(Ailment ailment);  // "not finite"

struct HealthNotice {
    Ailment ailment = Ailment::stall;
    bool begins = true;  // else it is over
    std::int64_t step = 0;
    std::optional<plan::Rank> rank;
    std::string host;                                     // of the rank
    std::vector<std::pair<const char*, double>> figures;  // as the event has them
    std::string message;
};

// A run whose weights are lost: what it would save is of no use. The message has the step.
class NotFiniteError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The mean loss of the last `diverging_window` steps against the least one of as many steps in a
// row that ended before these. Spikes of a few steps are none of its business.
class LossWatch {
  public:
    explicit LossWatch(const plan::Health& limits) : limits_(limits) {}

    // `loss` of a step that was taken.
    std::optional<HealthNotice> step(std::int64_t number, double loss);

  private:
    plan::Health limits_;
    std::deque<double> losses_;  // of the last window
    std::deque<double> means_;   // of the windows that the last one overlaps
    double least_ = 0;           // of all windows before these
    bool has_least_ = false;
    bool diverging_ = false;
};

// Ranks that do the same work, or work whose time is predicted, compared by the time that their
// compute ops ran, without what they waited. Each is its median over some steps, which a hiccup
// does not move. A straggler is above the median of its peers by more than 10 % and by more than
// their standard deviation: Megatron-LM's rule (gpu_sniff_test), but without the rank itself among
// its peers. With it, one of n ranks is never more than √(n − 1) deviations off, and one of two
// never more than one. It has recovered when it is less than half as far off as 10 %.
class StragglerWatch {
  public:
    static constexpr double kSlowerBy = 0.10;
    static constexpr std::size_t kSteps = 10;

    // By rank: its peers are the ranks with the same number; expected seconds per step, 0: not
    // known. Where all are known, all ranks are peers, measured by what they were expected to take.
    StragglerWatch(std::vector<std::int64_t> peers, std::vector<double> expected_s,
                   std::vector<std::string> hosts);

    // `computed_s` by rank; empty: nobody knows.
    std::vector<HealthNotice> step(std::int64_t number, const std::vector<double>& computed_s);

  private:
    struct Standing {
        double own_s = 0;
        double others_s = 0;  // what its peers would have taken for the same
        double deviation_s = 0;
        std::size_t others = 0;
        double excess() const { return others_s > 0 ? own_s / others_s - 1 : 0; }
    };

    std::vector<double> medians() const;
    Standing standing_of(std::size_t rank, const std::vector<double>& medians) const;
    HealthNotice notice(std::size_t rank, const Standing& standing, bool begins,
                        std::int64_t step) const;

    std::vector<std::int64_t> peers_;
    std::vector<double> expected_s_;
    std::vector<std::string> hosts_;
    std::map<std::int64_t, std::vector<std::size_t>> groups_;
    std::deque<std::vector<double>> recent_;
    std::vector<bool> slow_;
};

// How long nothing may be heard of a run before it counts as stalled: before its first step
// `starts_within_s`; then `stalled_after_s`, or ten times the median of its last steps where that
// is longer; and, as soon as one has been saved, twice as long as the slowest checkpoint took
// besides, since the last step waits for it.
class StallLimit {
  public:
    explicit StallLimit(const plan::Health& limits) : limits_(limits) {}

    void stepped(double time_s);
    void saved(double seconds);
    double seconds() const;

  private:
    static constexpr double kSteps = 10;
    static constexpr double kSaves = 2;
    static constexpr std::size_t kTimes = 20;

    plan::Health limits_;
    std::deque<double> times_;
    double slowest_save_s_ = 0;
};

}  // namespace orrery::runtime
