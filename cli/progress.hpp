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
    // So large a share is done, from 0 to 1: says when all will be. From one thread at a time.
    void at(double done);

  private:
    using Clock = std::chrono::steady_clock;

    void say(const std::string& state);

    const Console& console_;
    std::string subcommand_;
    std::string what_;
    Clock::time_point begin_, next_;
    int steps_ = 0;
    bool line_is_there_ = false;
};

}  // namespace orrery::cli
