#include "cli/run/interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>

#include "plan/check.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

std::atomic<bool> came{false};
std::atomic<bool> tells{true};
std::atomic<bool> met{true};
std::atomic<int> terminations{-1};  // an event that the handler signals; −1: nobody waits for it
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may use them");

constexpr std::array kAsk = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

constexpr std::string_view kMessage =
    "\norrery train: ends after this step; a second signal ends it at once\n";
// Of the event: what it has been signalled for.
constexpr std::uint64_t kLeave = 1, kTerminated = std::uint64_t{1} << 32;

void signal_event(std::uint64_t what) {
    const int event = terminations.load();
    if (event >= 0 && write(event, &what, sizeof what) < 0) return;  // nobody to tell
}

extern "C" void note_signal(int signal) {
    if (came.exchange(true) || !met.load()) _exit(kExitInterrupted);
    if (signal != SIGINT) signal_event(kTerminated);
    if (tells.load() && write(STDERR_FILENO, kMessage.data(), kMessage.size()) < 0)
        return;  // nobody to tell
}

}  // namespace

InterruptWatch::InterruptWatch(InterruptOptions options) : options_(std::move(options)) {
    came = false;
    tells = options_.tells;
    met = !options_.before_meeting;
    if (options_.terminated) {
        terminations = eventfd(0, EFD_CLOEXEC);
        ORRERY_CHECK(terminations >= 0, "no descriptor is left");
        thread_ = std::thread([this] { wait_for_termination(); });
    }
    for (std::size_t i = 0; i < kAsk.size(); ++i) {
        before_[i] = std::signal(kAsk[i], note_signal);
        // In the background of a script, under nohup.
        if (before_[i] == SIG_IGN && kAsk[i] != SIGTERM) std::signal(kAsk[i], SIG_IGN);
    }
}

InterruptWatch::~InterruptWatch() {
    for (std::size_t i = 0; i < kAsk.size(); ++i)
        std::signal(kAsk[i], before_[i]);
    if (!thread_.joinable()) return;
    signal_event(kLeave);
    thread_.join();
    close(terminations.exchange(-1));
}

void InterruptWatch::wait_for_termination() {
    for (std::uint64_t what = 0; read(terminations, &what, sizeof what) == sizeof what;) {
        if (what >= kTerminated) options_.terminated();
        if (what % kTerminated != 0) return;
    }
}

bool InterruptWatch::asked() const {
    return came;
}

void InterruptWatch::ranks_have_met() {
    met = true;
}

}  // namespace orrery::cli
