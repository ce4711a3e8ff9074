// Ranks as processes, started as a launcher does: by torchrun's variables from here, so that each
// rank's end can be seen, or by mpirun itself.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/launch/socket.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {

using Words = std::vector<std::string>;
using Settings = std::map<std::string, std::string>;  // of the environment

// A process whose stdout is read from here, and whose stderr is a file.
class Running {
  public:
    Running(Words words, const Settings& settings, const std::string& folder,
            const std::string& err_path)
        : err_path_(err_path) {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        process_ = fork();
        if (process_ == 0) {
            dup2(ends[1], STDOUT_FILENO);
            const int err = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
            dup2(err, STDERR_FILENO);
            for (const auto& [name, value] : settings)
                setenv(name.c_str(), value.c_str(), 1);
            if (chdir(folder.c_str()) != 0) _exit(126);
            std::vector<char*> argv;
            for (std::string& word : words)
                argv.push_back(word.data());
            argv.push_back(nullptr);
            execvp(argv[0], argv.data());
            _exit(127);
        }
        close(ends[1]);
        out_ = fdopen(ends[0], "r");
    }
    ~Running() {
        if (process_ > 0) {
            kill(process_, SIGKILL);
            outcome();
        }
        std::fclose(out_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    pid_t process() const { return process_; }

    // Reads until a line has this in it, or the process ends.
    void read_until(const std::string& word) {
        char part[65536];
        while (std::fgets(part, sizeof part, out_) != nullptr) {
            read_ += part;
            if (std::string(part).find(word) != std::string::npos) return;
        }
    }

    // Once it has ended: −signal where one has ended it.
    Outcome outcome() {
        read_until("no line has this");
        int status = 0;
        waitpid(std::exchange(process_, -1), &status, 0);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_,
                content_of(err_path_)};
    }

  private:
    std::string err_path_;
    pid_t process_ = -1;
    FILE* out_ = nullptr;
    std::string read_;
};

inline Settings torchruns_settings(std::int64_t rank, std::int64_t ranks, std::int64_t port) {
    return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
            {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)}};
}

// MPI keeps memory until the process ends, and is no code of ours.
inline const Settings kMpiSettings = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                      {"ASAN_OPTIONS", "detect_leaks=0"}};

inline bool has_mpirun() {
    return std::system("command -v mpirun >/dev/null") == 0;
}

inline Words under_mpirun(std::int64_t ranks, const Words& words) {
    Words all = {"mpirun", "-n", std::to_string(ranks), "--oversubscribe"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
}

// mpirun's children on this node, by rank.
inline std::map<std::int64_t, pid_t> ranks_of_mpirun(pid_t mpirun) {
    std::map<std::int64_t, pid_t> ranks;
    std::istringstream children(content_of("/proc/" + std::to_string(mpirun) + "/task/" +
                                           std::to_string(mpirun) + "/children"));
    const std::string name = "OMPI_COMM_WORLD_RANK=";
    for (pid_t child = 0; children >> child;) {
        std::istringstream variables(content_of("/proc/" + std::to_string(child) + "/environ"));
        for (std::string variable; std::getline(variables, variable, '\0');)
            if (variable.rfind(name, 0) == 0)
                ranks[std::stoll(variable.substr(name.size()))] = child;
    }
    return ranks;
}

// Not there, or only to be buried by its parent.
inline bool has_gone(pid_t process) {
    const std::string stat = content_of("/proc/" + std::to_string(process) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
}

// The losses of a run's lines, by step.
inline std::map<std::int64_t, double> losses_of(const std::string& out) {
    std::map<std::int64_t, double> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        const auto event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event["event"] == "step") all[event["step"]] = event["loss"];
    }
    return all;
}

}  // namespace orrery::cli
