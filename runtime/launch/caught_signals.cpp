#include "runtime/launch/caught_signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {
namespace {

std::atomic<int> into{-1};  // where the handler writes; −1: nobody reads
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

// One byte a signal: whole or not at all. A full pipe holds signals enough.
extern "C" void keep_signal(int signal) {
    const int error = errno;
    const auto number = static_cast<unsigned char>(signal);
    [[maybe_unused]] const ssize_t written = write(into.load(), &number, 1);
    errno = error;
}

}  // namespace

CaughtSignals::CaughtSignals(std::span<const int> signals) {
    ORRERY_CHECK(signals.size() <= kMost, "too many signals to be caught");
    if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0)
        throw CommunicationError(fmt::format("no pipe for signals: {}", std::strerror(errno)));
    ORRERY_CHECK(into.exchange(ends_[1]) < 0, "signals are caught twice");
    for (const int signal : signals) {
        struct sigaction before {};
        sigaction(signal, nullptr, &before);
        if (before.sa_handler == SIG_IGN && signal != SIGCHLD && signal != SIGTERM) continue;
        struct sigaction keeping {};
        keeping.sa_handler = keep_signal;
        keeping.sa_flags = SA_RESTART;
        sigemptyset(&keeping.sa_mask);
        sigaction(signal, &keeping, nullptr);
        caught_[count_++] = {signal, before};
    }
}

CaughtSignals::~CaughtSignals() {
    for (std::size_t i = 0; i < count_; ++i)
        sigaction(caught_[i].signal, &caught_[i].before, nullptr);
    into = -1;
    for (const int end : ends_)
        close(end);
}

int CaughtSignals::next() {
    unsigned char number = 0;
    return read(ends_[0], &number, 1) == 1 ? number : 0;
}

pid_t CaughtSignals::fork() {
    sigset_t all{}, before{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // a child's signals are not for this pipe
    const pid_t process = ::fork();
    const int error = errno;
    if (process == 0) {
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        for (std::size_t i = 0; i < count_; ++i)
            sigaction(caught_[i].signal, &usual, nullptr);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return process;
}

}  // namespace orrery::runtime
