// The sums of a step (StepSums) while it is simulated: events are counted as they end, in order of
// time, and forgotten. Of a rank only what has ended since its last kernel is remembered, as
// nothing older explains why the next one waits. The numbers are those of the trace that was not
// kept.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/step_sums.hpp"

namespace orrery::trace {

class ForwardAccounts {
  public:
    // `trace`: ops, programs and tracks without events; must outlive this. With several
    // `repetitions` of the step the window is the last: it begins when every op of those before has
    // ended.
    ForwardAccounts(const Trace& trace, int repetitions);

    // An op of `track` has ended, none that was told of before has ended later.
    void ended(std::size_t track, std::uint32_t op, const Event& event);

    // The window is known and the sums are complete once every op has ended.
    Picoseconds step_start() const { return start_; }
    Picoseconds step_end() const { return now_; }
    StepSums finish();

  private:
    // What an op counts as.
    struct Kind {
        Account account = Account::other;  // while it runs, or is waited for
        bool compute = false;
        bool exchange = false;
        std::int8_t copy = -1;
    };
    struct Ended {
        std::int32_t op = 0;
        std::uint32_t number = 0;
        Event event;
    };
    struct Rank {
        Picoseconds computed = 0;  // end of its last kernel
        // Of all ops; of several that ended together the last in the program.
        std::int32_t last = kNothing;
        Picoseconds last_end = 0;
        std::vector<Ended> since;  // other ops, since that kernel
        Accounts accounts{};
        std::array<Picoseconds, kCopyKinds> copy_waits{};
    };
    struct Count {
        std::uint32_t number = 0;
        std::int64_t messages = 0;
        Picoseconds at = 0;
    };

    void count(std::size_t track, std::uint32_t op, std::uint32_t number, const Event& event);
    void settle();
    void charge(Rank& rank, Account account, Picoseconds from, Picoseconds to) const;
    void explain(std::size_t track, Picoseconds from, Picoseconds to, std::int32_t blocker);
    Account absent(std::size_t track, const Event& event) const;

    const Trace& trace_;
    std::vector<Kind> kinds_;                           // by op
    std::vector<std::vector<std::int64_t>> exchanged_;  // messages, by program and step
    std::vector<std::size_t> of_one_step_;              // ops, by program
    std::vector<std::int64_t> represents_;              // ranks, by track
    std::vector<Rank> ranks_;
    StepSums sums_;
    std::uint64_t before_ = 0;  // ops of the steps before the last that have not ended
    Picoseconds start_ = 0;     // of the window, once before_ is 0
    Picoseconds now_ = 0;
    std::vector<Count> instant_;  // what took no time at now_
};

}  // namespace orrery::trace
