// Signals that wait to be read, whichever thread of the process the system gives them to. Blocking
// them would hold in the threads alone that are started later, and libraries keep threads.
#pragma once

#include <array>
#include <csignal>
#include <span>

namespace orrery::runtime {

// While it lives, these signals do nothing but wait here; one at a time. Who ignores a signal other
// than SIGCHLD or SIGTERM goes on ignoring it: it is in the background of a script, or under nohup.
// A program that this process starts meets them as if nobody caught them. Throws CommunicationError
// where no pipe is left.
class CaughtSignals {
  public:
    explicit CaughtSignals(std::span<const int> signals);
    ~CaughtSignals();  // forgets what was not read
    CaughtSignals(const CaughtSignals&) = delete;
    CaughtSignals& operator=(const CaughtSignals&) = delete;

    // Can be read from where one waits.
    int descriptor() const { return ends_[0]; }
    // The number of the first that waits; 0: none does.
    int next();

    // As fork(), with nothing caught in the child. Only calls that are safe after fork may follow.
    pid_t fork();

  private:
    static constexpr std::size_t kMost = 8;
    struct Caught {
        int signal = 0;
        struct sigaction before {};
    };

    std::array<int, 2> ends_{};
    std::array<Caught, kMost> caught_{};
    std::size_t count_ = 0;
};

}  // namespace orrery::runtime
