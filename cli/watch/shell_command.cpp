#include "cli/watch/shell_command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/subcommand.hpp"

extern char** environ;

namespace orrery::cli {
namespace {

// Those of this process, less the ones that are given anew.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
    std::vector<std::string> all;
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string one = *each;
        if (variables.count(one.substr(0, one.find('='))) == 0) all.push_back(one);
    }
    for (const auto& [name, value] : variables)
        all.push_back(name + '=' + value.substr(0, value.find('\0')));
    return all;
}

}  // namespace

ShellCommand::ShellCommand(std::string text, const std::map<std::string, std::string>& variables,
                           ShellOutput output)
    : text_(std::move(text)) {
    std::array<int, 2> pipe_ends = {-1, -1};
    if (output == ShellOutput::piped && ::pipe2(pipe_ends.data(), O_CLOEXEC) != 0)
        throw UsageError(fmt::format("{}: no pipe: {}", text_, std::strerror(errno)));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(
        &actions, output == ShellOutput::piped ? pipe_ends[1] : STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    std::vector<std::string> environment = environment_with(variables);
    std::vector<char*> variables_of_it;
    for (std::string& one : environment)
        variables_of_it.push_back(one.data());
    variables_of_it.push_back(nullptr);
    std::string shell = "sh", option = "-c";
    std::array<char*, 4> words = {shell.data(), option.data(), text_.data(), nullptr};
    const int fault = ::posix_spawn(&process_, "/bin/sh", &actions, &attributes, words.data(),
                                    variables_of_it.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (pipe_ends[1] >= 0) ::close(pipe_ends[1]);
    output_ = pipe_ends[0];
    if (fault == 0) return;
    process_ = -1;
    if (output_ >= 0) ::close(output_);
    throw UsageError(fmt::format("{}: cannot be started: {}", text_, std::strerror(fault)));
}

ShellCommand::ShellCommand(ShellCommand&& other) noexcept
    : text_(std::move(other.text_)),
      process_(std::exchange(other.process_, -1)),
      output_(std::exchange(other.output_, -1)),
      exit_code_(other.exit_code_) {}

ShellCommand::~ShellCommand() {
    if (!exit_code() && process_ > 0) {
        ::kill(-process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    if (output_ >= 0) ::close(output_);
}

std::optional<int> ShellCommand::exit_code() {
    int status = 0;
    if (process_ > 0 && ::waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return exit_code_;
}

}  // namespace orrery::cli
