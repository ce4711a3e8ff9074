#include "cli/machine_files.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

// Empty: the file is the profile of this computer; else what is wrong with it.
std::string fault_of(const std::string& path, std::int64_t threads_per_rank) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return "it has not been made yet";
    try {
        return fit::why_not_of(fit::this_machine(), threads_per_rank, sim::load_profile(path));
    } catch (const sim::ProfileError& error) {
        return error.what();
    }
}

// Held by one process at a time, for as long as the object lives.
class Lock {
  public:
    explicit Lock(const std::string& path)
        : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
        while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    ~Lock() {
        if (file_ >= 0) close(file_);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    int file_;
};

// The program that measures: beside this one where it is installed or built, else the wrapper of
// the tree that this one was built in, which builds it. Empty: neither is there.
std::string program_that_measures() {
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed);
    if (failed) return "";
    const fs::path own = self.parent_path() / "orrery-run";
    if (self == own) return own.string();
    const fs::path preset = self.parent_path().parent_path();  // <tree>/build/release/bin/orrery
    const fs::path tree = preset.parent_path().parent_path();
    const bool wrapped =
        preset.filename() == "release" && fs::exists(tree / "CMakePresets.json", failed);
    for (const fs::path& program : {wrapped ? tree / "orrery" : own, own})
        if (access(program.c_str(), X_OK) == 0) return program.string();
    return "";
}

// Its report is for who asks for it: what this program prints is data.
int exit_code_of_silent(std::vector<std::string> words, int& fault) {
    std::vector<char*> pointers;
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    fault = posix_spawn(&child, words.front().c_str(), &files, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    int status = 0;
    if (fault == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

bool is_guess_of_cores(const plan::Scenario& scenario, const sim::Profile& profile) {
    const sim::GemmCurve* products = profile.gemm_curve(plan::DType::fp32);
    return scenario.cluster.intra_node.kind == plan::IntraNodeKind::host &&
           (products == nullptr || !products->measured);
}

std::optional<std::string> own_profile_path(std::int64_t threads_per_rank) {
    return fit::machine_profile_path(fit::this_machine(), threads_per_rank,
                                     [](const char* name) { return std::getenv(name); });
}

std::optional<std::string> start_calibration(const std::string& path,
                                             std::int64_t threads_per_rank) {
    const std::string program = program_that_measures();
    if (program.empty())
        return "the program that measures, orrery-run, does not lie beside this one";
    int fault = 0;
    const int code = exit_code_of_silent({program, "calibrate", "--this-machine",
                                          "--threads-per-rank", std::to_string(threads_per_rank)},
                                         fault);
    if (fault != 0) return fmt::format("{}: {}", program, std::strerror(fault));
    if (code != 0) return fmt::format("{} calibrate --this-machine ended with {}", program, code);
    const std::string still = fault_of(path, threads_per_rank);
    if (still.empty()) return std::nullopt;
    return fmt::format("{} has just measured, and {}: {}; build both programs anew: ./orrery build",
                       program, path, still);
}

std::string MachineFiles::machine_profile(std::int64_t ranks, std::int64_t threads_per_rank,
                                          std::string& why) const {
    const std::int64_t threads =
        threads_per_rank > 0 ? threads_per_rank : fit::threads_of_rank(fit::this_machine(), ranks);
    const std::optional<std::string> path = own_profile_path(threads);
    if (!path) {
        why = "neither XDG_CACHE_HOME nor HOME says where to keep it";
        return "";
    }
    why = fault_of(*path, threads);
    if (why.empty()) return *path;
    if (told_ == nullptr) {
        why += fmt::format("; orrery calibrate --this-machine --threads-per-rank {} makes it",
                           threads);
        return "";
    }
    std::error_code failed;
    fs::create_directories(fs::path(*path).parent_path(), failed);
    if (failed) {
        why = fmt::format("{}: {}", fs::path(*path).parent_path().string(), failed.message());
        return "";
    }
    const Lock lock(*path + ".lock");
    if (fault_of(*path, threads).empty()) return *path;  // another process has made it meanwhile
    *told_
        << fmt::format(
               "orrery: timing this computer for the profile {}, ranks of {} thread{}, once; {}\n",
               plan::kThisMachine, threads, threads == 1 ? "" : "s", why)
        << std::flush;
    if (const auto fault = make_(*path, threads)) {
        why = *fault;
        return "";
    }
    return *path;
}

}  // namespace orrery::cli
