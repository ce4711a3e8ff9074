// A run of orrery train as a process of its own, with all that it starts in turn: its lines as they
// come, its end, and none of it left behind.
//
// It is a process group, so that a terminal's Ctrl-C reaches the supervisor alone; the system ends
// it when the supervisor dies in whatever way. What it started and left behind becomes a child of
// the supervisor (PR_SET_CHILD_SUBREAPER), which ends that as well.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/caught_signals.hpp"

namespace orrery::runtime {

// While it lives, the signals that ask a run to end and SIGCHLD wait to be read, and orphans of our
// descendants become ours. One at a time.
class SupervisorSignals {
  public:
    SupervisorSignals();
    ~SupervisorSignals();
    SupervisorSignals(const SupervisorSignals&) = delete;
    SupervisorSignals& operator=(const SupervisorSignals&) = delete;

    int descriptor() const { return caught_.descriptor(); }
    pid_t fork() { return caught_.fork(); }
    // One that asks to end, if it has come; else 0. SIGHUP and SIGUSR1 count as SIGTERM, which
    // every launcher passes on.
    int asked();
    // Waits, or returns true before the time is over because one of these came.
    bool asked_within(std::chrono::milliseconds time);

  private:
    CaughtSignals caught_;
};

class ChildRun {
  public:
    enum class Stream { out, err };
    struct Line {
        Stream stream = Stream::out;
        std::string text;  // without its end
    };

    // `ends_with_us`: the signal that it gets when this process dies. Throws
    // CommunicationError where no process can be started; words[0] that cannot be executed
    // is exit code 127.
    ChildRun(const std::vector<std::string>& words, int ends_with_us, SupervisorSignals& signals);
    ~ChildRun();  // ends it
    ChildRun(const ChildRun&) = delete;
    ChildRun& operator=(const ChildRun&) = delete;

    pid_t process() const { return process_; }

    // The next line, or none: the time is over, a signal came, or it has ended and all was read.
    std::optional<Line> next(std::chrono::milliseconds wait);
    // A SIGINT or SIGTERM that came to this process meanwhile, once; 0: none.
    int take_asked();
    // It has ended, and its last line was read.
    bool ended() const { return exited_ && lines_.empty(); }

    void send(int signal) const;
    // SIGTERM, after a while SIGKILL; returns when it has ended. Its lines stay to be read.
    void stop(std::chrono::milliseconds grace);

    // Once ended: exit code, and the signal that ended it, else 0.
    int exit_code() const { return exit_code_; }
    int signal() const { return signal_; }

  private:
    struct Pipe {
        int descriptor = -1;
        std::string rest;  // of a line that has no end yet
    };

    void wait(std::chrono::milliseconds limit);
    void read(Pipe& pipe, Stream stream);
    void close(Pipe& pipe, Stream stream);
    void reap();
    void end_family();

    SupervisorSignals& signals_;
    pid_t process_ = -1;
    Pipe out_, err_;
    std::deque<Line> lines_;
    bool exited_ = false;
    int exit_code_ = 0;
    int signal_ = 0;
    int asked_ = 0;
};

}  // namespace orrery::runtime
