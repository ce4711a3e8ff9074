// What the lines of `orrery train --json` say of a run, its supervisor's among them: how far it is,
// how fast, what it has lost, and when it will end. Knows no clock and no file: whoever follows a
// run hands in lines and times, so that a run of weeks ago is told like one that goes on.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::cli {

enum class RunState : std::uint8_t {
    waiting,   // nothing has been said
    starting,  // no step yet, of the run or since it was started again
    running,
    stalled,     // silent for longer than its steps explain
    restarting,  // its supervisor is about to start it again
    ended,
    interrupted,  // by a signal; it can be resumed
    failed,       // and nobody has started it again
};
std::string_view name(RunState state);

// Seconds of the wall clock since the first line; they sum to `wall`.
struct RunSeconds {
    double wall = 0;
    double steps = 0;        // that count, less their waits for data: the goodput
    double data = 0;         // of steps that count, until the last rank had its samples
    double skipped = 0;      // steps whose update was not made
    double lost = 0;         // steps that had to be made again from an older checkpoint
    double checkpoints = 0;  // while training stood still for one
    double other = 0;        // starting, restarting, and what no line accounts for
};

// When the run will have made all its steps, from now: the mean, and the central 90 %.
struct RunRest {
    double seconds = 0;
    double low_s = 0;
    double high_s = 0;
};

// Something that a person may want to be told once, when it begins.
struct RunNews {
    // "stall", "slow", "diverging", "not finite", "straggler", "restart", "goodput", "error", "end"
    std::string what;
    std::string message;
};

class FollowedRun {
  public:
    // A line that came at `now` (seconds since 1970), which counts where the line has no time of
    // its own. One that is no event is counted and passed over.
    void read(std::string_view line, double now);
    // Nothing has come until now.
    void look(double now);

    RunState state() const { return state_; }
    std::int64_t step() const { return step_; }                   // the newest that counts; 0: none
    std::optional<std::int64_t> steps() const { return steps_; }  // of the run
    std::optional<double> loss() const { return loss_; }
    std::optional<double> tokens_per_s() const { return tokens_per_s_; }
    std::optional<double> mfu() const { return mfu_; }
    std::optional<double> step_time_s() const;  // median of the newest steps
    std::int64_t ranks() const { return ranks_; }
    std::int64_t restarts() const { return restarts_; }
    std::int64_t checkpoint() const { return checkpoint_; }  // step of the newest; 0: none
    RunSeconds seconds() const;
    double goodput() const;               // steps ÷ wall; 0 before the first step
    std::optional<RunRest> rest() const;  // nothing before there are four steps to go by
    // What is wrong now, by what it is: of ranks "straggler 3".
    const std::map<std::string, std::string>& ailments() const { return ailments_; }
    const std::string& message() const { return message_; }  // of its end; may be empty
    // Nothing more is to come: it has ended, or failed and has no supervisor that goes on.
    bool over() const { return over_; }
    const std::string& scenario() const { return scenario_; }  // resolved, as JSON; empty: not said
    std::int64_t unread() const { return unread_; }            // lines that are no event
    double heard_s() const { return heard_; }                  // when it last said something

    // News since the last call, oldest first.
    std::vector<RunNews> news();

    // For how long a run of such steps may be silent.
    double patience_s() const;

  private:
    struct Step {
        double time_s = 0;
        double data_wait_s = 0;
        bool skipped = false;
    };

    void began(double at);
    void stepped(std::int64_t step, const Step& made);
    void back_to(std::int64_t step);
    void tell(std::string what, std::string message) {
        news_.push_back({std::move(what), std::move(message)});
    }

    RunState state_ = RunState::waiting;
    std::optional<double> first_;  // when it began
    double heard_ = 0, looked_ = 0;
    std::optional<std::int64_t> steps_;
    std::int64_t step_ = 0, ranks_ = 0, restarts_ = 0, checkpoint_ = 0, unread_ = 0;
    std::optional<double> loss_, tokens_per_s_, mfu_;
    std::map<std::int64_t, Step> kept_;  // steps that may yet be lost: since the newest checkpoint,
                                         // and since the one before, should that be damaged
    RunSeconds seconds_;                 // of what is past; wall and other follow from it
    std::int64_t counted_ = 0;           // steps that count, without those that were skipped
    bool supervised_ = false, over_ = false;
    std::deque<double> newest_;  // times of the newest steps
    double saving_s_ = 0;        // of the slowest checkpoint: standing still and writing
    std::map<std::string, std::string> ailments_;
    std::string message_, scenario_;
    std::vector<RunNews> news_;
};

}  // namespace orrery::cli
