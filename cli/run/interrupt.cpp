#include "cli/run/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "cli/exit_code.hpp"

namespace orrery::cli {
namespace {

std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may use it");

constexpr std::string_view kMessage =
    "\norrery train: ends after this step; a second signal ends it at once\n";

extern "C" void note_signal(int) {
    if (came.exchange(true)) _exit(kExitInterrupted);
    if (write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0) return;  // nobody to tell
}

}  // namespace

InterruptWatch::InterruptWatch()
    : before_interrupt_(std::signal(SIGINT, note_signal)),
      before_terminate_(std::signal(SIGTERM, note_signal)) {
    came = false;
    if (before_interrupt_ == SIG_IGN) std::signal(SIGINT, SIG_IGN);
}

InterruptWatch::~InterruptWatch() {
    std::signal(SIGINT, before_interrupt_);
    std::signal(SIGTERM, before_terminate_);
}

bool InterruptWatch::asked() const {
    return came;
}

}  // namespace orrery::cli
