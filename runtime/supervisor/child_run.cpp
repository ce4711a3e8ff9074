#include "runtime/supervisor/child_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{50};

constexpr std::array kSupervised = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};

std::array<int, 2> new_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        throw CommunicationError(
            fmt::format("no pipe to a run's process: {}", std::strerror(errno)));
    return ends;
}

// Children of this process, orphans of theirs among them.
std::vector<pid_t> own_children() {
    std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;)
        children.push_back(child);
    return children;
}

}  // namespace

SupervisorSignals::SupervisorSignals() : caught_(kSupervised) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

SupervisorSignals::~SupervisorSignals() {
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

int SupervisorSignals::asked() {
    int found = 0;
    while (const int signal = caught_.next())
        if (signal != SIGCHLD) found = signal == SIGINT ? SIGINT : SIGTERM;
    return found;
}

bool SupervisorSignals::asked_within(std::chrono::milliseconds time) {
    const Clock::time_point until = Clock::now() + time;
    for (auto left = time; left.count() > 0;
         left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now())) {
        pollfd polled{descriptor(), POLLIN, 0};
        poll(&polled, 1, static_cast<int>(left.count()));
        if (asked() != 0) return true;
    }
    return false;
}

ChildRun::ChildRun(const std::vector<std::string>& words, int ends_with_us,
                   SupervisorSignals& signals)
    : signals_(signals) {
    const auto out = new_pipe(), err = new_pipe();
    std::vector<char*> argv;
    for (const std::string& word : words)
        argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    process_ = signals.fork();
    if (process_ == 0) {  // only calls that are safe after fork
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, ends_with_us, 0, 0, 0);
        if (getppid() != parent) _exit(127);  // it died before it was asked for
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execvp(argv[0], argv.data());
        _exit(127);
    }
    const int error = errno;
    ::close(out[1]);
    ::close(err[1]);
    out_.descriptor = out[0];
    err_.descriptor = err[0];
    if (process_ < 0) {
        ::close(out[0]);
        ::close(err[0]);
        throw CommunicationError(
            fmt::format("the run's process cannot be started: {}", std::strerror(error)));
    }
    setpgid(process_, process_);  // whoever comes first
    for (const Pipe* each : {&out_, &err_})
        fcntl(each->descriptor, F_SETFL, O_NONBLOCK);
}

ChildRun::~ChildRun() {
    send(SIGKILL);
    while (!exited_)
        wait(kPoll);
    for (const Pipe* each : {&out_, &err_})
        if (each->descriptor >= 0) ::close(each->descriptor);
}

void ChildRun::send(int signal) const {
    if (exited_) return;
    // The group: a launcher in between may not pass a signal on.
    if (signal == SIGKILL) kill(-process_, signal);
    kill(process_, signal);
}

int ChildRun::take_asked() {
    return std::exchange(asked_, 0);
}

std::optional<ChildRun::Line> ChildRun::next(std::chrono::milliseconds wait_for) {
    if (lines_.empty() && !exited_) wait(wait_for);
    if (lines_.empty()) return std::nullopt;
    Line line = std::move(lines_.front());
    lines_.pop_front();
    return line;
}

void ChildRun::stop(std::chrono::milliseconds grace) {
    const Clock::time_point killed_at = Clock::now() + grace;
    send(SIGTERM);
    while (!exited_) {
        if (Clock::now() >= killed_at) send(SIGKILL);
        wait(kPoll);
    }
}

// Reads what there is, reaps what has ended.
void ChildRun::wait(std::chrono::milliseconds limit) {
    std::array<pollfd, 3> polled = {pollfd{signals_.descriptor(), POLLIN, 0},
                                    pollfd{out_.descriptor, POLLIN, 0},
                                    pollfd{err_.descriptor, POLLIN, 0}};
    const auto milliseconds = static_cast<int>(std::min<std::int64_t>(limit.count(), 3'600'000));
    if (poll(polled.data(), polled.size(), std::max(0, milliseconds)) < 0 && errno != EINTR) return;
    read(out_, Stream::out);
    read(err_, Stream::err);
    if (const int signal = signals_.asked(); signal != 0) asked_ = signal;
    reap();
}

void ChildRun::read(Pipe& pipe, Stream stream) {
    std::array<char, 65536> part{};
    while (pipe.descriptor >= 0) {
        const ssize_t bytes = ::read(pipe.descriptor, part.data(), part.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && errno == EAGAIN) return;
        if (bytes <= 0) return close(pipe, stream);
        pipe.rest.append(part.data(), static_cast<std::size_t>(bytes));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = pipe.rest.find('\n', begin)) != std::string::npos;
             begin = end + 1)
            lines_.push_back({stream, pipe.rest.substr(begin, end - begin)});
        pipe.rest.erase(0, begin);
    }
}

// A line that its writer did not end is not one that it meant: of stdout it is dropped.
void ChildRun::close(Pipe& pipe, Stream stream) {
    if (stream == Stream::err && !pipe.rest.empty()) lines_.push_back({stream, pipe.rest});
    pipe.rest.clear();
    ::close(pipe.descriptor);
    pipe.descriptor = -1;
}

void ChildRun::reap() {
    int status = 0;
    if (exited_ || waitpid(process_, &status, WNOHANG) != process_) return;
    exited_ = true;
    if (WIFSIGNALED(status))
        signal_ = WTERMSIG(status);
    else
        exit_code_ = WEXITSTATUS(status);
    end_family();
    for (auto* each : {&out_, &err_}) {
        const Stream stream = each == &out_ ? Stream::out : Stream::err;
        read(*each, stream);
        if (each->descriptor >= 0) close(*each, stream);
    }
}

// What is left of the group, and whatever else lost its parent; until there is nothing.
void ChildRun::end_family() {
    kill(-process_, SIGKILL);
    for (std::vector<pid_t> left = own_children(); !left.empty(); left = own_children()) {
        for (const pid_t each : left)
            kill(each, SIGKILL);
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace orrery::runtime
