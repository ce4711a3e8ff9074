// Ranks that are processes: this test program, started again with a variable that says what a rank
// of it does instead of testing.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/launch/connect_ranks.hpp"
#include "runtime/launch/mpi_plane.hpp"
#include "runtime/launch/spawn_ranks.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;

void say(const std::string& line) {
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(99);
}

constexpr const char* kAct = "TEST_RANK_ACTS";
const std::vector<std::string> kArguments = {"--of", "a rank"};

Launch own_launch() {
    return launch_of_environment(process_environment()).value();
}

int sum_ranks() {
    const auto plane = connect_ranks(own_launch());
    const double sum = plane->sum(static_cast<double>(plane->rank()));
    say(fmt::format("rank {} of {}: sum {}\n", plane->rank(), plane->size(), sum));
    plane->finish();
    return 0;
}

int read_variable_and_arguments() {
    const char* value = std::getenv("TEST_OF_RANK");
    return value != nullptr && std::string(value) == fmt::format("r{}", own_launch().rank) &&
                   own_arguments() == kArguments
               ? 0
               : 3;
}

int fail_in_one_hang_in_others() {
    const Launch launch = own_launch();
    if (launch.rank == 2) return 9;
    if (launch.rank == 1) std::signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

int be_killed() {
    if (own_launch().rank == 0) raise(SIGKILL);
    return 0;
}

extern "C" void end_as_interrupted(int) {
    _exit(130);
}

int wait_for_interrupt() {
    std::signal(SIGINT, end_as_interrupted);
    const auto plane = connect_ranks(own_launch());
    plane->barrier();
    if (plane->rank() == 0) say("ready\n");
    for (;;)
        pause();
}

int meet_through_mpi() {
    const Launch launch = own_launch();
    const auto plane = mpi_plane();
    const std::int64_t rank = plane->rank();
    bool good = launch.launcher == Launcher::open_mpi && rank == launch.rank &&
                plane->size() == launch.size;
    ControlPlane::Bytes data(rank == 0 ? 5000 : 1, std::byte{3});
    plane->broadcast(data);
    good = good && data == ControlPlane::Bytes(5000, std::byte{3});
    const auto all = plane->all_gather(std::span(data).first(static_cast<std::size_t>(rank)));
    for (std::size_t i = 0; i < all.size(); ++i)
        good = good && all[i].size() == i;
    good = good && plane->sum(static_cast<double>(rank)) == 3;
    plane->finish();
    const auto over_tcp = connect_ranks(launch);  // all are on this node
    good = good && over_tcp->sum(1) == 3;
    over_tcp->finish();
    return good ? 0 : 3;
}

int act(const std::string& name) {
    if (name == "sum") return sum_ranks();
    if (name == "read") return read_variable_and_arguments();
    if (name == "fail") return fail_in_one_hang_in_others();
    if (name == "be killed") return be_killed();
    if (name == "wait") return wait_for_interrupt();
    if (name == "mpi") return meet_through_mpi();
    return 98;
}

// Before main: a rank is no test.
[[maybe_unused]] const bool is_rank = [] {
    if (const char* name = std::getenv(kAct)) _exit(act(name));
    return false;
}();

int spawn(std::int64_t ranks, const std::string& name, const SpawnOptions& options = {}) {
    return spawn_ranks(
        ranks, kArguments,
        [&](std::int64_t rank) {
            return std::vector<Variable>{{kAct, name}, {"TEST_OF_RANK", fmt::format("r{}", rank)}};
        },
        options);
}

// What came of spawn_ranks, called in a process whose stdout is a pipe.
struct Outcome {
    int code = -1;
    std::string out;
};

class Spawner {
  public:
    explicit Spawner(const std::function<int()>& body) {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        process_ = fork();
        if (process_ == 0) {
            close(ends[0]);
            dup2(ends[1], STDOUT_FILENO);
            close(ends[1]);
            _exit(body());
        }
        close(ends[1]);
        pipe_ = ends[0];
    }

    pid_t process() const { return process_; }
    std::string read_line() {
        std::string line;
        for (char letter = 0; read(pipe_, &letter, 1) == 1 && letter != '\n';)
            line += letter;
        return line;
    }
    Outcome outcome() {
        Outcome result;
        char buffer[4096];
        for (ssize_t got = 0; (got = read(pipe_, buffer, sizeof buffer)) > 0;)
            result.out.append(buffer, static_cast<std::size_t>(got));
        close(pipe_);
        int status = 0;
        waitpid(process_, &status, 0);
        if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
        return result;
    }

  private:
    pid_t process_ = 0;
    int pipe_ = -1;
};

TEST(SpawnRanks, MeetAndOnlyTheFirstHasOurStdout) {
    Spawner spawner([] { return spawn(4, "sum"); });
    const Outcome outcome = spawner.outcome();
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, "rank 0 of 4: sum 6\n");
}

TEST(SpawnRanks, EachHasItsVariablesAndTheArguments) {
    setenv("TEST_OF_RANK", "of the parent", 1);
    Spawner spawner([] { return spawn(3, "read"); });
    EXPECT_EQ(spawner.outcome().code, 0);
    unsetenv("TEST_OF_RANK");
}

TEST(SpawnRanks, AFailureEndsRanksThatHang) {
    Spawner spawner([] { return spawn(4, "fail", {100ms, 500ms}); });
    EXPECT_EQ(spawner.outcome().code, 9);
}

TEST(SpawnRanks, ARankThatIsKilled) {
    Spawner spawner([] { return spawn(2, "be killed"); });
    EXPECT_EQ(spawner.outcome().code, 128 + SIGKILL);
}

TEST(SpawnRanks, PassAnInterruptOn) {
    Spawner spawner([] { return spawn(3, "wait"); });
    EXPECT_EQ(spawner.read_line(), "ready");
    kill(spawner.process(), SIGINT);
    EXPECT_EQ(spawner.outcome().code, 130);
}

TEST(SpawnRanks, VariablesOfASharedGpu) {
    std::set<std::string> names;
    for (const Variable& variable : variables_of_shared_gpu(3, 2))
        names.insert(variable.name + "=" + variable.value);
    EXPECT_EQ(names, (std::set<std::string>{"NCCL_HOSTID=r3", "NCCL_NET=Socket",
                                            "NCCL_IB_DISABLE=1", "NCCL_SOCKET_IFNAME=lo",
                                            "NCCL_NVLS_ENABLE=0", "NCCL_MAX_NCHANNELS=2",
                                            "NCCL_ALGO=Ring", "NCCL_PROTO=Simple"}));
}

TEST(SpawnRanks, ARankWithAGpuOfItsOwnLeavesNcclItsWay) {
    EXPECT_TRUE(variables_of_shared_gpu(3, 1).empty());
}

TEST(MpiPlane, MeetsUnderMpirun) {
    if (!has_mpi() || std::system("command -v mpirun >/dev/null") != 0)
        GTEST_SKIP() << "MPI is not installed here";
    // MPI keeps memory until the process ends.
    const std::string command = fmt::format(
        "ASAN_OPTIONS=detect_leaks=0 mpirun -n 3 --allow-run-as-root --oversubscribe -x {}=mpi "
        "/proc/{}/exe",
        kAct, getpid());
    EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
