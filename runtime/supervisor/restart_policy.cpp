#include "runtime/supervisor/restart_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/exit_code.hpp"

namespace orrery::runtime {
namespace {

// Of a process that a signal ended there is no exit code of ours.
int exit_code_of_attempt(const Attempt& attempt) {
    return attempt.signal != 0 || attempt.stalled_after_s > 0 ? kExitDevice : attempt.exit_code;
}

bool alike(const Attempt& one, const Attempt& other) {
    return one.last_step == other.last_step && one.exit_code == other.exit_code &&
           one.signal == other.signal && one.message == other.message &&
           (one.stalled_after_s > 0) == (other.stalled_after_s > 0);
}

}  // namespace

std::string Attempt::account() const {
    std::string text = resumed_from > 0 ? fmt::format("from step {}", resumed_from)
                                        : std::string("from the start");
    text += last_step > resumed_from ? fmt::format(" to step {}", last_step) : ", no step";
    if (stalled_after_s > 0)
        text += fmt::format(", then nothing for {:.3g} s", stalled_after_s);
    else if (signal != 0)
        text += fmt::format(", then signal {}", signal);
    else
        text += fmt::format(", then exit code {}", exit_code);
    if (!message.empty()) text += ": " + message;
    return text;
}

void Attempt::distrust_launcher() {
    if (!ended_well() || told_end) return;
    exit_code = told_exit_code != 0 ? told_exit_code : kExitInternal;
    if (message.empty()) message = "its launcher ended with 0, but the run did not say its end";
}

std::optional<Decision> RestartPolicy::end_of(const Attempt& attempt) const {
    Decision decision;
    decision.exit_code = attempt.exit_code;
    if (attempt.asked_to_end) {
        decision.exit_code = kExitInterrupted;
        return decision;
    }
    if (attempt.stalled_after_s > 0 || attempt.signal != 0) return std::nullopt;
    switch (attempt.exit_code) {
        case kExitOk:
            return decision;
        case kExitInterrupted:
        case kExitUsage:
        case kExitInvalidScenario:
        case kExitInfeasible:
            decision.why = fmt::format("exit code {}: a restart does not help", attempt.exit_code);
            return decision;
        case kExitUnreadable:
            if (attempt.damaged_checkpoint) return std::nullopt;
            decision.why = "exit code 5: a restart does not help";
            return decision;
        default:
            return std::nullopt;
    }
}

bool RestartPolicy::made_progress(const Attempt& attempt) {
    const bool progress =
        attempt.last_step > furthest_step_ || attempt.newest_checkpoint > newest_checkpoint_;
    furthest_step_ = std::max(furthest_step_, attempt.last_step);
    newest_checkpoint_ = std::max(newest_checkpoint_, attempt.newest_checkpoint);
    return progress;
}

std::int64_t RestartPolicy::newest_sound(const std::vector<std::int64_t>& checkpoints) const {
    for (const std::int64_t step : checkpoints)
        if (!damaged_.contains(step)) return step;
    return 0;
}

bool RestartPolicy::lost_checkpoint(const std::vector<std::int64_t>& checkpoints,
                                    Decision& decision) const {
    const std::int64_t newest = checkpoints.empty() ? 0 : checkpoints.front();
    if (newest >= published_) return false;
    decision.then = Then::gives_up;
    decision.exit_code = kExitUnreadable;
    decision.why += fmt::format(
        "; the checkpoint of step {} was published and is not there any more, {}. Look where it "
        "went; --resume goes on from what is there",
        published_, newest > 0 ? fmt::format("the newest is of step {}", newest) : "nor any other");
    return true;
}

Decision RestartPolicy::older_checkpoint(const Attempt& attempt,
                                         const std::vector<std::int64_t>& checkpoints) {
    damaged_.insert(*attempt.damaged_checkpoint);
    published_ = 0;
    Decision decision;
    decision.resume_step = newest_sound(checkpoints);
    decision.layout = layout_;
    if (decision.resume_step == 0) {
        decision.then = Then::gives_up;
        decision.exit_code = kExitUnreadable;
        decision.why = fmt::format(
            "the checkpoint of step {} is damaged, and there is no older "
            "one: {}",
            *attempt.damaged_checkpoint, attempt.message);
        return decision;
    }
    decision.then = Then::restarts;
    decision.why = fmt::format("the checkpoint of step {} is damaged; goes on from that of step {}",
                               *attempt.damaged_checkpoint, decision.resume_step);
    return decision;
}

// False where no layout has so few ranks.
bool RestartPolicy::choose_layout(std::optional<std::int64_t> ranks_left, Decision& decision) {
    if (!ranks_left) {
        decision.layout = layout_;
        return true;
    }
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
        if (ranks_[number] > *ranks_left) continue;
        if (number != layout_)
            decision.why += fmt::format(
                "; with {} ranks left it goes on in {} of {} ranks", *ranks_left,
                number == 0 ? "its own layout" : fmt::format("run.elastic_layouts[{}]", number - 1),
                ranks_[number]);
        decision.layout = number;
        return true;
    }
    return false;
}

Decision RestartPolicy::first(std::optional<std::int64_t> ranks_left) {
    Decision decision;
    decision.then = Then::restarts;
    if (choose_layout(ranks_left, decision)) {
        layout_ = decision.layout;
        return decision;
    }
    decision.then = Then::gives_up;
    decision.exit_code = kExitInfeasible;
    decision.why = fmt::format("{} ranks are there, and no layout has so few", *ranks_left);
    return decision;
}

std::string RestartPolicy::diagnosis() const {
    std::string text = fmt::format("{} restarts in a row made no progress\n", kMostWithoutProgress);
    for (const Attempt& attempt : fruitless_)
        text += "  " + attempt.account() + '\n';
    const bool same = std::all_of(fruitless_.begin(), fruitless_.end(), [&](const Attempt& each) {
        return alike(each, fruitless_.back());
    });
    if (same) {
        text +=
            "  The same each time: it follows from the run itself, or from a part that fails "
            "every time.";
    } else {
        text += "  Not the same each time.";
    }
    if (blamed_ && blamed_in_a_row_ > 1)
        text += fmt::format(" Rank {} was to blame the last {} times.", *blamed_, blamed_in_a_row_);
    return text;
}

Decision RestartPolicy::after(const Attempt& attempt, const std::vector<std::int64_t>& checkpoints,
                              std::optional<std::int64_t> ranks_left) {
    if (const auto end = end_of(attempt)) return *end;
    if (attempt.newest_checkpoint > 0) {
        damaged_.erase(attempt.newest_checkpoint);
        published_ = attempt.newest_checkpoint;
    }
    if (attempt.damaged_checkpoint) return older_checkpoint(attempt, checkpoints);
    const bool progress = made_progress(attempt);
    if (progress) {
        restarts_without_progress_ = 0;
        fruitless_.clear();
    } else if (!first_) {
        ++restarts_without_progress_;
    }
    first_ = false;
    fruitless_.push_back(attempt);
    blamed_in_a_row_ = attempt.rank && attempt.rank == blamed_ ? blamed_in_a_row_ + 1 : 1;
    blamed_ = attempt.rank;
    Decision decision;
    decision.why = attempt.account();
    if (lost_checkpoint(checkpoints, decision)) return decision;
    if (!progress) decision.pause_s = 1 << restarts_without_progress_;
    if (!ranks_left && blamed_ && blamed_in_a_row_ > 1 && !progress && ranks_.size() > 1)
        ranks_left = ranks_[layout_] - 1;
    if (!choose_layout(ranks_left, decision)) {
        decision.then = Then::gives_up;
        decision.exit_code = kExitInfeasible;
        decision.why += fmt::format("; {} ranks are left, and no layout has so few", *ranks_left);
        return decision;
    }
    if (decision.layout != layout_) {
        layout_ = decision.layout;
        restarts_without_progress_ = 0;
        blamed_.reset();
    } else if (restarts_without_progress_ >= kMostWithoutProgress) {
        decision.then = Then::gives_up;
        decision.exit_code = exit_code_of_attempt(attempt);
        decision.why = diagnosis();
        return decision;
    }
    decision.then = Then::restarts;
    if (!damaged_.empty()) decision.resume_step = newest_sound(checkpoints);
    return decision;
}

}  // namespace orrery::runtime
