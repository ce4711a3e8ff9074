#include "cli/watch/followed_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery::cli {
namespace {

using Event = nlohmann::json;

constexpr std::size_t kNewest = 200;      // steps that a rate is taken from
constexpr std::size_t kLeastSteps = 4;    // to say when a run will end
constexpr double kQuietSteps = 10;        // as run.health: a stall is ten times the median step …
constexpr double kQuietLeast_s = 180;     // … or 180 s
constexpr double kStartsWithin_s = 600;   // to the first step
constexpr double kEndOfTime_s = 1e11;     // the year 5138
constexpr double kNinetyPercent = 1.645;  // standard deviations on either side

std::optional<double> number(const Event& event, const char* key) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
}

// Whole numbers that a count can be; others are not said.
std::optional<std::int64_t> whole(const Event& event, const char* key) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number_integer()) return std::nullopt;
    const auto value = found->get<std::int64_t>();
    return value >= 0 ? std::optional(value) : std::nullopt;
}

// A time that can have passed.
double seconds_in(const Event& event, const char* key) {
    const double value = number(event, key).value_or(0);
    return value > 0 && value < 1e9 ? value : 0;
}

// On one line, and without what would command a terminal.
std::string text_in(const Event& event, const char* key) {
    const auto found = event.find(key);
    std::string text = found != event.end() && found->is_string() ? found->get<std::string>() : "";
    for (char& each : text)
        if (static_cast<unsigned char>(each) < ' ' || each == '\x7f') each = ' ';
    return text;
}

bool flag_in(const Event& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

std::string_view name(RunState state) {
    switch (state) {
        case RunState::waiting:
            return "waiting";
        case RunState::starting:
            return "starting";
        case RunState::running:
            return "running";
        case RunState::stalled:
            return "stalled";
        case RunState::restarting:
            return "restarting";
        case RunState::ended:
            return "ended";
        case RunState::interrupted:
            return "interrupted";
        case RunState::failed:
            break;
    }
    return "failed";
}

void FollowedRun::began(double at) {
    if (!first_) first_ = at;
}

void FollowedRun::stepped(std::int64_t step, const Step& made) {
    if (step <= step_) back_to(step - 1);  // by a run that said nothing of a checkpoint
    step_ = step;
    kept_[step] = made;
    (made.skipped ? seconds_.skipped : seconds_.steps) += made.time_s - made.data_wait_s;
    seconds_.data += made.data_wait_s;
    if (!made.skipped) ++counted_;
    newest_.push_back(made.time_s);
    if (newest_.size() > kNewest) newest_.pop_front();
    if (state_ != RunState::running) state_ = RunState::running;
}

// What was made after `step` is made again.
void FollowedRun::back_to(std::int64_t step) {
    for (auto lost = kept_.upper_bound(step); lost != kept_.end(); lost = kept_.erase(lost)) {
        const Step& made = lost->second;
        (made.skipped ? seconds_.skipped : seconds_.steps) -= made.time_s - made.data_wait_s;
        seconds_.data -= made.data_wait_s;
        seconds_.lost += made.time_s;
        if (!made.skipped) --counted_;
    }
    step_ = std::min(step_, step);
}

void FollowedRun::read(std::string_view line, double now) {
    const Event event = Event::parse(line, nullptr, false);
    const std::string what = event.is_object() ? text_in(event, "event") : "";
    if (what.empty()) {
        if (line.find_first_not_of(" \t\r") != std::string_view::npos) ++unread_;
        return;
    }
    const double said = number(event, "unix_s").value_or(now);
    const double at = said > 0 && said < kEndOfTime_s ? said : now;
    began(at);
    heard_ = std::max(heard_, at);
    looked_ = std::max(looked_, at);
    if (ailments_.erase("stall") > 0 && state_ == RunState::stalled) state_ = RunState::running;

    if (what == "start") {
        steps_ = whole(event, "steps");
        ranks_ = whole(event, "ranks").value_or(0);
        if (event.contains("scenario")) scenario_ = event["scenario"].dump();
        state_ = RunState::starting;
        message_.clear();
        over_ = false;
    } else if (what == "attempt") {
        state_ = RunState::starting;
        supervised_ = true;
    } else if (what == "resume") {
        back_to(whole(event, "step").value_or(0));
        step_ = whole(event, "step").value_or(0);
    } else if (what == "step" || what == "skip") {
        const double time_s = seconds_in(event, "time_s");
        stepped(whole(event, "step").value_or(step_ + 1),
                {time_s, std::min(seconds_in(event, "data_wait_s"), time_s), what == "skip"});
        loss_ = number(event, "loss");
        tokens_per_s_ = number(event, "tokens_per_s");
        mfu_ = number(event, "mfu");
    } else if (what == "checkpoint") {
        kept_.erase(kept_.begin(), kept_.upper_bound(checkpoint_));
        checkpoint_ = whole(event, "step").value_or(checkpoint_);
        seconds_.checkpoints += seconds_in(event, "stall_s");
        saving_s_ =
            std::max(saving_s_, seconds_in(event, "stall_s") + seconds_in(event, "write_s"));
    } else if (what == "health") {
        const std::string ailment = text_in(event, "ailment");
        const auto rank = whole(event, "rank");
        const std::string key = rank ? fmt::format("{} {}", ailment, *rank) : ailment;
        if (flag_in(event, "begins")) {
            ailments_[key] = text_in(event, "message");
            tell(ailment, ailments_[key]);
            if (ailment == "stall") state_ = RunState::stalled;
        } else {
            ailments_.erase(key);
        }
    } else if (what == "restart") {
        ++restarts_;
        state_ = RunState::restarting;
        over_ = false;
        message_ = text_in(event, "why");
        ailments_.clear();
        tell("restart", message_);
    } else if (what == "error" || what == "give_up") {
        state_ = RunState::failed;
        message_ = text_in(event, what == "error" ? "message" : "why");
        over_ = what == "give_up" || !supervised_;
        tell("error", message_);
    } else if (what == "end") {
        state_ = flag_in(event, "interrupted") ? RunState::interrupted : RunState::ended;
        ailments_.clear();
        over_ = true;
        tell("end", state_ == RunState::ended ? "all steps are made" : "interrupted");
    }
}

void FollowedRun::look(double now) {
    looked_ = std::max(looked_, now);
    const bool is_to_speak = state_ == RunState::running || state_ == RunState::starting;
    if (!first_ || !is_to_speak || now - heard_ <= patience_s()) return;
    state_ = RunState::stalled;
    ailments_["stall"] = fmt::format("nothing has come for {:.0f} s", now - heard_);
    tell("stall", ailments_["stall"]);
}

double FollowedRun::patience_s() const {
    if (state_ == RunState::starting || newest_.empty()) return kStartsWithin_s;
    return std::max({kQuietLeast_s, kQuietSteps * *step_time_s(), 2 * saving_s_});
}

std::optional<double> FollowedRun::step_time_s() const {
    if (newest_.empty()) return std::nullopt;
    std::vector<double> times(newest_.begin(), newest_.end());
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    if (times.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

RunSeconds FollowedRun::seconds() const {
    RunSeconds all = seconds_;
    if (!first_) return all;
    const bool over =
        state_ == RunState::ended || state_ == RunState::interrupted || state_ == RunState::failed;
    all.wall = (over ? heard_ : looked_) - *first_;
    const double told = all.steps + all.data + all.skipped + all.lost + all.checkpoints;
    all.wall = std::max(all.wall, told);  // lines without times, all of which came at once
    all.other = all.wall - told;
    return all;
}

double FollowedRun::goodput() const {
    const RunSeconds all = seconds();
    return all.wall > 0 ? all.steps / all.wall : 0;
}

// Steps are independent draws, of the newest ones' mean and spread. Restarts come as often as they
// have, a Poisson process whose rate is known as well as `restarts_` counts can tell; each costs an
// exponential time of the mean that they have cost. Checkpoints stand still as they have.
std::optional<RunRest> FollowedRun::rest() const {
    if (!steps_ || newest_.size() < kLeastSteps) return std::nullopt;
    const double left = static_cast<double>(std::max<std::int64_t>(0, *steps_ - step_));
    const auto count = static_cast<double>(newest_.size());
    double mean = 0, variance = 0;
    for (const double time_s : newest_)
        mean += time_s / count;
    for (const double time_s : newest_)
        variance += (time_s - mean) * (time_s - mean) / (count - 1);
    const RunSeconds past = seconds();
    const double made = std::max(1.0, static_cast<double>(counted_));
    const double each = mean + past.checkpoints / made;
    double seconds = left * each;
    // The spread of single steps, and that of the mean itself, which all of them share.
    double spread = left * variance + left * left * variance / count;
    if (restarts_ > 0) {
        const double restarts = static_cast<double>(restarts_);
        const double up = past.wall - past.lost - past.other;
        const double cost = (past.lost + past.other) / restarts;
        const double each_second = restarts / std::max(up, 1e-9);
        const double expected = each_second * seconds;
        spread += expected * 2 * cost * cost + expected * expected / restarts * cost * cost;
        seconds += expected * cost;
    }
    const double deviation = kNinetyPercent * std::sqrt(spread);
    return RunRest{seconds, std::max(0.0, seconds - deviation), seconds + deviation};
}

std::vector<RunNews> FollowedRun::news() {
    return std::exchange(news_, {});
}

}  // namespace orrery::cli
