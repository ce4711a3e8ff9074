// What asks a run to end: SIGINT, SIGTERM, SIGHUP of a terminal that went, SIGUSR1 that Slurm sends
// before the time is up. The first asks it to end after its step, the second ends the process at
// once with exit code 130.
#pragma once

#include <array>
#include <functional>
#include <thread>

namespace orrery::cli {

struct InterruptOptions {
    bool tells = true;  // the user what the first signal does
    // Ranks are still to meet, in no step that could end: a signal ends the process at once, until
    // ranks_have_met().
    bool before_meeting = false;
    // At the first SIGTERM, on a thread of its own: who sends it may not wait for the step's end.
    std::function<void()> terminated;
};

// While it lives the signals are its own; one at a time. A SIGINT that is ignored stays ignored.
class InterruptWatch {
  public:
    explicit InterruptWatch(InterruptOptions options = {});
    ~InterruptWatch();
    InterruptWatch(const InterruptWatch&) = delete;
    InterruptWatch& operator=(const InterruptWatch&) = delete;

    // Whether a signal has come. From any thread.
    bool asked() const;
    static void ranks_have_met();

  private:
    void wait_for_termination();

    InterruptOptions options_;
    std::array<void (*)(int), 4> before_{};  // by signal that asks
    std::thread thread_;
};

}  // namespace orrery::cli
