// What comes after an attempt at a run has ended: the end, another attempt, or a diagnosis. Knows
// no processes and no files: what happened goes in, what to do comes out.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace orrery::runtime {

// One process that performed the run, from where it began to its end.
struct Attempt {
    std::int64_t resumed_from = 0;       // step; 0: the start
    std::int64_t last_step = 0;          // that it told of; 0: none
    std::int64_t newest_checkpoint = 0;  // that it published; 0: none
    int exit_code = 0;
    int signal = 0;  // that ended it; 0: it exited
    double stalled_after_s =
        0;                      // it was ended because nothing was heard for so long; 0: it was not
    bool asked_to_end = false;  // somebody interrupted the supervisor
    bool told_end = false;      // its end event came
    int told_exit_code = 0;     // of its error event
    std::string message;        // of its error event; else its last line on stderr
    std::optional<std::int64_t> rank;                // to blame, where it said so
    std::optional<std::int64_t> damaged_checkpoint;  // that it was to begin with

    bool ended_well() const { return exit_code == 0 && signal == 0 && stalled_after_s == 0; }
    // A launcher that hides how its ranks ended makes no success of a run that has not said that it
    // ended.
    void distrust_launcher();
    // "step 12, then exit code 6: …"
    std::string account() const;
};

enum class Then { ends, restarts, gives_up };

struct Decision {
    Then then = Then::ends;
    int exit_code = 0;             // where it ends or gives up
    std::string why;               // for people; of the end of a run that went well, nothing
    int pause_s = 0;               // before a restart
    std::int64_t resume_step = 0;  // of a restart; 0: the newest checkpoint
    std::size_t layout = 0;        // of a restart: number in RestartPolicy's ranks
};

// Rules, in this order:
// - What a restart cannot help ends it, with the exit code: success, an interrupt, 2, 3, 4, and 5
//   of anything but a checkpoint.
// - A damaged checkpoint is left for the next older one, until there is none.
// - A checkpoint that was published and is not there any more ends it: to go on with an older one,
//   or from the start, would lose work in silence.
// - A restart made progress if a step or a checkpoint came that had not been before. After three in
//   a row that did not, it gives up; before each of these it waits, 1 s, 2 s, 4 s, for what passes.
// - With as many ranks as are left it goes on in the first layout that has no more; it is known how
//   many are left where somebody says so, else where a rank was to blame twice in a row without
//   progress: one fewer than there were.
class RestartPolicy {
  public:
    static constexpr int kMostWithoutProgress = 3;

    // Ranks of the layouts, the scenario's own first.
    explicit RestartPolicy(std::vector<std::int64_t> ranks) : ranks_(std::move(ranks)) {}

    // Before the first attempt.
    Decision first(std::optional<std::int64_t> ranks_left);

    // `checkpoints`: steps of the complete ones that are there, newest first. `ranks_left`: that
    // somebody says could be started.
    Decision after(const Attempt& attempt, const std::vector<std::int64_t>& checkpoints,
                   std::optional<std::int64_t> ranks_left);

    std::int64_t ranks() const { return ranks_[layout_]; }

  private:
    bool made_progress(const Attempt& attempt);
    std::optional<Decision> end_of(const Attempt& attempt) const;
    Decision older_checkpoint(const Attempt& attempt, const std::vector<std::int64_t>& checkpoints);
    bool choose_layout(std::optional<std::int64_t> ranks_left, Decision& decision);
    std::int64_t newest_sound(const std::vector<std::int64_t>& checkpoints) const;
    bool lost_checkpoint(const std::vector<std::int64_t>& checkpoints, Decision& decision) const;
    std::string diagnosis() const;

    std::vector<std::int64_t> ranks_;
    std::size_t layout_ = 0;
    std::vector<Attempt> fruitless_;  // the last ones without progress, and the one before them
    int restarts_without_progress_ = 0;
    std::int64_t furthest_step_ = 0;
    std::int64_t newest_checkpoint_ = 0;
    std::int64_t published_ = 0;  // by the last attempt that did; 0: none, or it was damaged since
    std::set<std::int64_t> damaged_;
    std::optional<std::int64_t> blamed_;
    int blamed_in_a_row_ = 0;
    bool first_ = true;
};

}  // namespace orrery::runtime
