#include "cli/run/supervisor/supervise.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/unix_seconds.hpp"
#include "plan/exit_code.hpp"
#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/folder_lock.hpp"
#include "runtime/launch/whole_number.hpp"
#include "runtime/supervisor/attempt_events.hpp"
#include "runtime/supervisor/child_run.hpp"
#include "runtime/supervisor/restart_policy.hpp"
#include "runtime/train/stall_watch.hpp"

namespace orrery::cli {
namespace {

using runtime::Attempt;
using runtime::AttemptEvents;
using runtime::ChildRun;
using runtime::Decision;
using runtime::RestartPolicy;
using runtime::SupervisorSignals;
using runtime::Then;
using SupervisorClock = AttemptEvents::Clock;
using SupervisorJson = nlohmann::ordered_json;

// From SIGTERM to SIGKILL: what has stood still for less than this gets no longer.
constexpr std::chrono::duration<double> kMostGrace{5};
constexpr std::chrono::seconds kGraceOfAsked{10};  // until SIGKILL, after a second signal
constexpr std::chrono::seconds kMostForRanksLeft{60};
constexpr std::size_t kLastMessages = 5;

std::vector<std::int64_t> ranks_of_layouts(const plan::Scenario& scenario) {
    std::vector<std::int64_t> ranks = {scenario.layout.ranks()};
    for (const plan::ElasticLayout& elastic : scenario.run.elastic_layouts)
        ranks.push_back(elastic.ranks);
    return ranks;
}

std::string with_ranks(std::string command, std::int64_t ranks) {
    constexpr std::string_view kPlace = "{ranks}";
    for (std::size_t at = 0; (at = command.find(kPlace, at)) != std::string::npos;)
        command.replace(at, kPlace.size(), std::to_string(ranks));
    return command;
}

class Supervisor {
  public:
    Supervisor(const plan::Scenario& scenario, const SupervisionOptions& options,
               const std::vector<std::string>& words, Console& console)
        : scenario_(scenario),
          options_(options),
          arguments_(arguments_of_run(words)),
          console_(console),
          policy_(ranks_of_layouts(scenario)) {}

    int run() {
        const runtime::FolderLock lock(scenario_.run.checkpoint_path, runtime::kSupervisorLock,
                                       runtime::new_run_id());
        runtime::refuse_if_locked(scenario_.run.checkpoint_path, runtime::kRunLock);
        SupervisorSignals signals;
        Decision next = policy_.first(ranks_left(signals));
        while (next.then == Then::restarts && !asked_) {
            if (!next.why.empty()) tell_restart(next);
            if (signals.asked_within(std::chrono::seconds(next.pause_s))) break;
            const Attempt attempt = perform(next, signals);
            const bool over = attempt.asked_to_end || attempt.ended_well();
            next = policy_.after(attempt, checkpoints(), over ? std::nullopt : ranks_left(signals));
        }
        if (next.then == Then::restarts) return kExitInterrupted;  // asked to end between two
        tell_end(next);
        return next.exit_code;
    }

  private:
    std::vector<std::int64_t> checkpoints() const {
        std::vector<std::int64_t> steps;
        for (const auto& found : runtime::checkpoints_in(scenario_.run.checkpoint_path))
            steps.push_back(found.step);
        return steps;
    }

    // What the command says that was given for it; a command that says nothing of use is an error
    // that people must see, and changes nothing.
    std::optional<std::int64_t> ranks_left(SupervisorSignals& signals) {
        if (options_.ranks_left.empty()) return std::nullopt;
        // A number that no newline follows is one, too.
        ChildRun child({"/bin/sh", "-c", "/bin/sh -c \"$1\"; status=$?; echo; exit $status", "sh",
                        options_.ranks_left},
                       SIGKILL, signals);
        const auto until = SupervisorClock::now() + kMostForRanksLeft;
        std::string said;
        while (!child.ended() && !asked_ && SupervisorClock::now() < until) {
            const auto line = child.next(
                std::chrono::ceil<std::chrono::milliseconds>(until - SupervisorClock::now()));
            if (line && line->stream == ChildRun::Stream::err) console_.err << line->text << '\n';
            if (line && line->stream == ChildRun::Stream::out) said += line->text;
            asked_ = child.take_asked() != 0;
        }
        std::erase_if(said, [](unsigned char c) { return std::isspace(c) != 0; });
        const auto ranks = runtime::whole_number(said);
        if (child.ended() && child.exit_code() == 0 && child.signal() == 0 && ranks && *ranks >= 0)
            return ranks;
        if (!asked_)
            tell(fmt::format(
                "--ranks-left {}: {}; the layout stays", options_.ranks_left,
                child.ended() ? "no number came of it"
                              : fmt::format("no answer within {} s", kMostForRanksLeft.count())));
        return std::nullopt;
    }

    // What is executed for an attempt.
    std::vector<std::string> command(const Decision& decision) const {
        std::vector<std::string> words;
        const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
        if (options_.launch.empty()) {
            words.push_back(program);
        } else {
            const std::string launch = with_ranks(options_.launch, policy_.ranks());
            words = {"/bin/sh", "-c", "exec " + launch + " \"$@\"", "sh", program};
        }
        words.insert(words.end(), arguments_.begin(), arguments_.end());
        words.emplace_back("--supervised");
        words.emplace_back("--resume");
        if (decision.resume_step > 0)
            words.insert(words.end(), {"--resume-step", std::to_string(decision.resume_step)});
        if (decision.layout == 0) return words;
        for (const std::string& set : scenario_.run.elastic_layouts[decision.layout - 1].sets)
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), {"--set", "run.elastic_layouts=[]"});
        return words;
    }

    Attempt perform(const Decision& decision, SupervisorSignals& signals) {
        // A launcher ends its ranks when it is asked to.
        ChildRun child(command(decision), options_.launch.empty() ? SIGKILL : SIGTERM, signals);
        tell_attempt(child);
        messages_.clear();
        AttemptEvents events(scenario_.run.health);
        int asked = 0;
        double stalled_after_s = 0;
        SupervisorClock::time_point killed_at = SupervisorClock::time_point::max();
        while (!child.ended()) {
            const auto until = std::min(events.due(), killed_at);
            const auto wait =
                std::chrono::ceil<std::chrono::milliseconds>(std::clamp<SupervisorClock::duration>(
                    until - SupervisorClock::now(), std::chrono::seconds(0),
                    std::chrono::hours(1)));
            if (const auto line = child.next(wait)) pass_on(*line, events);
            if (const int signal = child.take_asked(); signal != 0) {
                child.send(signal);
                if (++asked == 2) killed_at = SupervisorClock::now() + kGraceOfAsked;
            }
            const auto now = SupervisorClock::now();
            if (now >= killed_at) child.send(SIGKILL);
            if (stalled_after_s == 0 && !child.ended() && events.stalled(now)) {
                stalled_after_s = events.allowed_s();
                tell(fmt::format("nothing for {:.3g} s: the run is ended", stalled_after_s));
                child.stop(std::chrono::ceil<std::chrono::milliseconds>(
                    std::min(kMostGrace, std::chrono::duration<double>(stalled_after_s))));
            }
        }
        Attempt attempt = events.attempt();
        attempt.exit_code = child.exit_code();
        attempt.signal = child.signal();
        attempt.stalled_after_s = stalled_after_s;
        attempt.distrust_launcher();
        attempt.asked_to_end = asked > 0 && !attempt.ended_well();
        return attempt;
    }

    void pass_on(const ChildRun::Line& line, AttemptEvents& events) {
        if (line.stream == ChildRun::Stream::err) {
            console_.err << line.text << '\n' << std::flush;
            if (!line.text.starts_with("step ")) remember(line.text);
            return;
        }
        if (!line.text.starts_with(runtime::kEventMark)) {
            console_.out << line.text << '\n' << std::flush;
            return;
        }
        const std::string event = line.text.substr(sizeof runtime::kEventMark - 1);
        events.read(event);
        if (options_.json) console_.out << event << '\n' << std::flush;
    }

    // The run's own words come before those of what started it.
    void remember(const std::string& message) {
        const auto is_own = [](const std::string& text) { return text.starts_with("orrery"); };
        const bool has_own = std::any_of(messages_.begin(), messages_.end(), is_own);
        if (has_own && !is_own(message)) return;
        if (!has_own && is_own(message)) messages_.clear();
        messages_.push_back(message);
        if (messages_.size() > kLastMessages) messages_.pop_front();
    }

    void tell(const std::string& message) {
        console_.err << "orrery train: supervisor: " << message << '\n' << std::flush;
    }
    void print(SupervisorJson event) {
        event["unix_s"] = unix_seconds();
        if (options_.json)
            console_.out << event.dump(-1, ' ', false, SupervisorJson::error_handler_t::replace)
                         << '\n'
                         << std::flush;
    }

    void tell_attempt(const ChildRun& child) {
        print({{"event", "attempt"},
               {"number", ++attempts_},
               {"process", child.process()},
               {"ranks", policy_.ranks()}});
    }

    void tell_restart(const Decision& decision) {
        tell(decision.why + (attempts_ > 0 ? "; it is started again" : ""));
        print({{"event", "restart"},
               {"why", decision.why},
               {"resume_step", decision.resume_step},
               {"ranks", policy_.ranks()}});
    }

    void tell_end(const Decision& decision) {
        if (decision.then != Then::gives_up) {
            if (!decision.why.empty()) tell(decision.why);
            return;
        }
        std::string said = "gives up: " + decision.why;
        if (!messages_.empty()) said += "\n  Its last messages:";
        for (const std::string& message : messages_)
            said += "\n    " + message;
        tell(said);
        print({{"event", "give_up"}, {"why", decision.why}, {"exit_code", decision.exit_code}});
    }

    const plan::Scenario& scenario_;
    const SupervisionOptions& options_;
    std::vector<std::string> arguments_;
    Console& console_;
    RestartPolicy policy_;
    std::deque<std::string> messages_;  // of the attempt, the last ones
    int attempts_ = 0;
    bool asked_ = false;  // to end, while no attempt was under way
};

}  // namespace

std::vector<std::string> arguments_of_run(const std::vector<std::string>& words) {
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "--supervise" || word == "--resume") continue;
        const std::array with_value = {"--launch", "--ranks-left", "--resume-step"};
        const bool ours = std::any_of(with_value.begin(), with_value.end(), [&](const char* name) {
            return word == name || word.starts_with(std::string(name) + '=');
        });
        if (!ours) {
            kept.push_back(word);
        } else if (word.find('=') == std::string::npos) {
            ++i;
        }
    }
    return kept;
}

int supervise(const plan::Scenario& scenario, const SupervisionOptions& options,
              const std::vector<std::string>& words, Console& console) {
    return Supervisor(scenario, options, words, console).run();
}

}  // namespace orrery::cli
