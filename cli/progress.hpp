// What a command is at, on console.err, where it takes longer than a user waits without a word.
#pragma once

#include <chrono>
#include <string>

#include "cli/console.hpp"

namespace orrery::cli {

// Says nothing in the first two seconds. Then a terminal gets one line that is rewritten, and
// anything else a line every ten seconds.
class Progress {
  public:
    // "simulate": "looking for changes that make it fit"
    Progress(const Console& console, std::string subcommand, std::string what);
    ~Progress();  // takes the line of a terminal away
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // One more is begun.
    void step();

  private:
    using Clock = std::chrono::steady_clock;

    const Console& console_;
    std::string subcommand_;
    std::string what_;
    Clock::time_point next_;
    int steps_ = 0;
    bool line_is_there_ = false;
};

}  // namespace orrery::cli
