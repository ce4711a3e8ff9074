// SIGINT and SIGTERM during a run: the first asks it to end after its step, the second ends the
// process at once with exit code 130.
#pragma once

namespace orrery::cli {

// While it lives the signals are its own; one at a time. A SIGINT that is ignored stays ignored.
class InterruptWatch {
  public:
    InterruptWatch();
    ~InterruptWatch();
    InterruptWatch(const InterruptWatch&) = delete;
    InterruptWatch& operator=(const InterruptWatch&) = delete;

    // Whether a signal has come. From any thread.
    bool asked() const;

  private:
    void (*before_interrupt_)(int);
    void (*before_terminate_)(int);
};

}  // namespace orrery::cli
