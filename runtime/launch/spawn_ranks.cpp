#include "runtime/launch/spawn_ranks.hpp"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "runtime/comm/communication_error.hpp"
#include "runtime/launch/caught_signals.hpp"
#include "runtime/launch/handshake.hpp"
#include "runtime/launch/socket.hpp"

namespace orrery::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// SIGCHLD among them: who ignores it has the system forget how children ended.
constexpr std::array kHeld = {SIGINT, SIGTERM, SIGCHLD};
constexpr std::chrono::milliseconds kPoll{100};

// Ours, with `changes` in place of what has their names.
std::vector<std::string> environment_with(const std::vector<Variable>& changes) {
    std::vector<std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const bool changed = std::any_of(
            changes.begin(), changes.end(),
            [&](const Variable& change) { return text.substr(0, text.find('=')) == change.name; });
        if (!changed) all.emplace_back(text);
    }
    for (const Variable& change : changes)
        all.push_back(change.name + "=" + change.value);
    return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts)
        all.push_back(text.data());
    all.push_back(nullptr);
    return all;
}

pid_t start(std::int64_t rank, std::vector<std::string> words,
            const std::vector<Variable>& changes) {
    std::vector<std::string> environment = environment_with(changes);
    words.insert(words.begin(), "orrery-run");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (rank != 0) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    pid_t process = 0;
    const int error = posix_spawn(&process, "/proc/self/exe", &actions, &attributes,
                                  pointers(words).data(), pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        throw CommunicationError(fmt::format("the process of rank {} cannot be started: {}", rank,
                                             std::strerror(error)));
    return process;
}

std::vector<Variable> torchruns_variables(std::int64_t rank, std::int64_t ranks,
                                          std::int64_t port) {
    return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
            {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)}};
}

// Processes that run, by rank. None is left when it goes.
class Family {
  public:
    Family() = default;
    ~Family() {
        send(SIGKILL);
        for (const pid_t process : running_)
            waitpid(process, nullptr, 0);
    }
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

    void add(pid_t process) { running_.push_back(process); }
    bool ended() const { return running_.empty(); }
    void send(int signal) const {
        for (const pid_t process : running_)
            kill(process, signal);
    }

    // Reaps what has ended, and gives the exit code of the first that failed; 0: none has.
    int reap() {
        int code = 0;
        const auto has_ended = [&](pid_t process) {
            int status = 0;
            if (waitpid(process, &status, WNOHANG) != process) return false;
            if (code == 0)
                code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            return true;
        };
        running_.erase(std::remove_if(running_.begin(), running_.end(), has_ended), running_.end());
        return code;
    }

  private:
    std::vector<pid_t> running_;
};

int wait_for_all(Family& family, CaughtSignals& signals, const SpawnOptions& options) {
    int code = 0;
    Clock::time_point failed;
    bool terminated = false;
    while (!family.ended()) {
        pollfd polled{signals.descriptor(), POLLIN, 0};
        poll(&polled, 1, static_cast<int>(kPoll.count()));
        while (const int signal = signals.next())
            if (signal != SIGCHLD) family.send(signal);
        const int found = family.reap();
        if (code == 0 && found != 0) {
            code = found;
            failed = Clock::now();
        }
        if (code == 0) continue;
        if (Clock::now() - failed >= options.until_killed) {
            family.send(SIGKILL);
        } else if (!terminated && Clock::now() - failed >= options.until_terminated) {
            family.send(SIGTERM);
            terminated = true;
        }
    }
    return code;
}

}  // namespace

std::vector<std::string> own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');)
        words.push_back(word);
    if (!words.empty()) words.erase(words.begin());
    return words;
}

int spawn_ranks(std::int64_t ranks, const std::vector<std::string>& arguments,
                const std::function<std::vector<Variable>(std::int64_t rank)>& variables_of,
                const SpawnOptions& options) {
    const std::int64_t port = free_loopback_port();
    const std::string secret = new_run_secret();
    CaughtSignals signals(kHeld);
    Family family;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        std::vector<Variable> changes = torchruns_variables(rank, ranks, port);
        changes.push_back({"ORRERY_RUN_SECRET", secret});
        const std::vector<Variable> more = variables_of(rank);
        changes.insert(changes.end(), more.begin(), more.end());
        family.add(start(rank, arguments, changes));
    }
    return wait_for_all(family, signals, options);
}

std::vector<Variable> variables_of_shared_gpu(std::int64_t rank, std::int64_t ranks_of_gpu) {
    if (ranks_of_gpu < 2) return {};
    return {{"NCCL_HOSTID", fmt::format("r{}", rank)},
            {"NCCL_NET", "Socket"},
            {"NCCL_IB_DISABLE", "1"},
            {"NCCL_SOCKET_IFNAME", "lo"},
            {"NCCL_NVLS_ENABLE", "0"},
            {"NCCL_MAX_NCHANNELS", "2"},
            {"NCCL_ALGO", "Ring"},
            {"NCCL_PROTO", "Simple"}};
}

}  // namespace orrery::runtime
