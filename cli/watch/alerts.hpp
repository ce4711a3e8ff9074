// What a person wants to be told of runs, and the command that tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/watch/shell_command.hpp"
#include "cli/watch/watched_run.hpp"

namespace orrery::cli {

// "stall", "slow=10": with a percentage where it needs one.
struct AlertCondition {
    std::string word;
    double percent = 0;
};

// Throws UsageError, which lists all of them. Nothing given: those that need no percentage.
std::vector<AlertCondition> alert_conditions(const std::vector<std::string>& words);
// A line for each, for help.
std::string alert_words();

// Tells each occurrence once: a condition is told again after it has been false.
class Alerts {
  public:
    // `command` may be empty: then `err` alone is told.
    Alerts(std::vector<AlertCondition> conditions, std::string command, std::ostream& err);

    void look(WatchedRun& run);
    // Waits until the commands have ended, no longer than they may take.
    void finish();

  private:
    // A hook that hangs hurts nobody: it is killed after a minute, and of more than so many at
    // once the others are told on stderr alone.
    static constexpr std::chrono::seconds kPatience{60};
    static constexpr std::size_t kMostAtOnce = 16;
    struct Hook {
        ShellCommand command;
        std::chrono::steady_clock::time_point until;
    };

    bool wants(std::string_view word) const;
    std::optional<double> percent_of(std::string_view word) const;
    void tell(const WatchedRun& run, const std::string& word, const std::string& message);
    void tell_once(WatchedRun& run, const std::string& word, bool is_so,
                   const std::string& message);
    void reap();

    std::vector<AlertCondition> conditions_;
    std::string command_;
    std::ostream& err_;
    std::list<Hook> hooks_;
};

}  // namespace orrery::cli
