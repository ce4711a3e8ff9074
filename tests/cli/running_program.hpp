// A program of this build that runs beside the test, whose lines are read as they come.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {

class RunningProgram {
  public:
    // What it says on stderr is in the file that err_path() names.
    RunningProgram(const std::string& name, std::vector<std::string> words)
        : err_path_(testing::TempDir() + "running.err") {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        const std::string binary = program(name);
        words.insert(words.begin(), name);
        std::vector<char*> argv;
        for (std::string& word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        process_ = fork();
        if (process_ == 0) {
            const int err = open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
            dup2(ends[1], STDOUT_FILENO);
            dup2(err, STDERR_FILENO);
            execv(binary.c_str(), argv.data());
            _exit(127);
        }
        close(ends[1]);
        out_ = fdopen(ends[0], "r");
    }
    ~RunningProgram() {
        if (process_ > 0) kill(process_, SIGKILL);
        exit_code();
        std::fclose(out_);
    }
    RunningProgram(const RunningProgram&) = delete;
    RunningProgram& operator=(const RunningProgram&) = delete;

    pid_t process() const { return process_; }

    // The next whole line of JSON; none at the end.
    std::optional<nlohmann::json> next_event() {
        std::string line;
        for (int c = 0; (c = std::fgetc(out_)) != EOF;) {
            if (c == '\n') return nlohmann::json::parse(line);
            line += static_cast<char>(c);
        }
        return std::nullopt;
    }

    // Of the program that has ended or will: 128 + the signal where one ended it.
    int exit_code() {
        if (process_ > 0) {
            int status = 0;
            waitpid(process_, &status, 0);
            process_ = 0;
            exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return exit_code_;
    }
    std::string err() const { return content_of(err_path_); }

  private:
    std::string err_path_;
    pid_t process_ = 0;
    FILE* out_ = nullptr;
    int exit_code_ = -1;
};

// Whether a process that is not our child has ended, or soon does; its parent may not have buried
// it yet.
inline bool ends_soon(pid_t process) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
        if (kill(process, 0) != 0) return true;
        std::ifstream status("/proc/" + std::to_string(process) + "/status");
        for (std::string line; std::getline(status, line);)
            if (line.rfind("State:\tZ", 0) == 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

}  // namespace orrery::cli
