// Ranks that are processes: what is said of them, what is refused, and what becomes of a run one of
// whose ranks dies or hangs. ORRERY_KILLS and ORRERY_STOPS: how many are killed and stopped under
// mpirun, one run each.
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/comm/processes/message_head.hpp"
#include "runtime/comm/processes/mpi_ranks.hpp"
#include "runtime/launch/handshake.hpp"
#include "tests/cli/launched_world.hpp"
#include "tests/sanitized.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

constexpr std::int64_t kRanks = 4;  // tensor 2 x pipeline 2

int count_of(const char* variable, int usual) {
    const char* said = std::getenv(variable);
    return said != nullptr ? std::atoi(said) : usual;
}

class LaunchedRun : public testing::Test {
  protected:
    LaunchedRun() {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~LaunchedRun() override { fs::remove_all(folder_); }

    Words words(const Words& options) const {
        Words all = {program("orrery-run"), "train",
                     std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json"};
        for (const char* set :
             {"layout.data_parallel=1", "layout.global_batch_size=4", "training.sequence_length=32",
              "run.steps=100000", "run.checkpoint={\"path\": \"saved\", \"every_steps\": 3}"})
            all.insert(all.end(), {"--set", set});
        all.insert(all.end(), options.begin(), options.end());
        return all;
    }

    Outcome perform(const Words& all, const Settings& settings) const {
        return Running(all, settings, folder_, folder_ + "/err").outcome();
    }

    std::string err_of(std::int64_t rank) const { return fmt::format("{}/err.{}", folder_, rank); }

    // A rank of a run as torchrun starts it.
    std::unique_ptr<Running> rank(std::int64_t rank, std::int64_t port,
                                  const Words& options) const {
        return std::make_unique<Running>(words(options), torchruns_settings(rank, kRanks, port),
                                         folder_, err_of(rank));
    }
    std::vector<std::unique_ptr<Running>> all_ranks(const Words& options) const {
        const std::int64_t port = runtime::free_loopback_port();
        std::vector<std::unique_ptr<Running>> all;
        for (std::int64_t each = 0; each < kRanks; ++each)
            all.push_back(rank(each, port, options));
        return all;
    }

    json record_of(std::int64_t rank) const {
        const std::string text =
            content_of(fmt::format("{}/flight-record/rank-{:05}.json", folder_, rank));
        return json::parse(text.empty() ? "{}" : text);
    }

    void expect_record(std::int64_t rank, const std::string& reason) const {
        const json record = record_of(rank);
        ASSERT_EQ(record.value("rank", -1), rank);
        EXPECT_THAT(record["reason"].get<std::string>(), HasSubstr(reason));
        EXPECT_GT(record["ops"].size(), 10U);
    }

    std::int64_t newest_step() const {
        std::int64_t newest = 0;
        for (const auto& entry : fs::directory_iterator(folder_ + "/saved"))
            if (fs::exists(entry.path() / "manifest.json")) {
                const std::string name = entry.path().filename();
                newest = std::max<std::int64_t>(
                    newest, std::stoll(name.substr(name.find_first_of("0123456789"))));
            }
        return newest;
    }

    // That the run goes on from its newest checkpoint as if nothing had been: with the losses of
    // one that nobody disturbs, whose ranks are threads.
    void expect_resumable(const std::string& out_before) const {
        const std::int64_t last = newest_step() + 4;
        ASSERT_GT(last, 4);
        const Words steps = {"--json", "--steps", std::to_string(last)};
        const auto resumed = losses_of(
            perform(words({"--json", "--steps", std::to_string(last), "--resume"}), {}).out);
        Words undisturbed_words = words(steps);
        undisturbed_words.insert(undisturbed_words.end(), {"--set", "run.checkpoint.path=other"});
        const auto undisturbed = losses_of(perform(undisturbed_words, {}).out);
        ASSERT_EQ(undisturbed.size(), static_cast<std::size_t>(last));
        ASSERT_EQ(resumed.size(), 4U);
        for (const auto& [step, loss] : resumed)
            EXPECT_EQ(loss, undisturbed.at(step)) << step;
        for (const auto& [step, loss] : losses_of(out_before))
            if (step <= last) {
                EXPECT_EQ(loss, undisturbed.at(step)) << step;
            }
    }

    std::string folder_ = testing::TempDir() + "launched-run";
};

TEST_F(LaunchedRun, TorchrunsRanksTrainWhatThreadsDo) {
    auto ranks = all_ranks({"--json", "--steps", "3"});
    const Outcome threads =
        perform(words({"--json", "--steps", "3", "--set", "run.checkpoint.path=other"}), {});
    ASSERT_EQ(threads.code, 0) << threads.err;
    for (std::int64_t each = 0; each < kRanks; ++each) {
        const Outcome outcome = ranks[static_cast<std::size_t>(each)]->outcome();
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_EQ(losses_of(outcome.out), losses_of(each == 0 ? threads.out : ""));
        const std::string told =
            "orrery train: 4 processes, started by torchrun, on 1 node; messages go over TCP; a "
            "call "
            "that waits 600 s for other ranks ends the run (--timeout)\n";
        EXPECT_EQ(outcome.err, each == 0 ? told : "");
    }
}

// Each of four ranks meets the three others, and the first one tells what came of it.
TEST_F(LaunchedRun, TorchrunsRanksCheckTheMachineFirst) {
    const std::int64_t port = runtime::free_loopback_port();
    std::vector<std::unique_ptr<Running>> ranks;
    for (std::int64_t each = 0; each < kRanks; ++each) {
        Words all = words({"--preflight", "--json", "--steps", "2", "--tolerance", "10000"});
        all[1] = "doctor";
        ranks.push_back(std::make_unique<Running>(all, torchruns_settings(each, kRanks, port),
                                                  folder_, err_of(each)));
    }
    for (std::int64_t each = 0; each < kRanks; ++each) {
        const Outcome outcome = ranks[static_cast<std::size_t>(each)]->outcome();
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        if (each > 0) {
            EXPECT_EQ(outcome.out + outcome.err, "");
            continue;
        }
        EXPECT_THAT(outcome.err, StartsWith("orrery doctor: 4 processes, started by torchrun"));
        const json report = json::parse(outcome.out);
        EXPECT_EQ(report["hosts"].size(), 4U);
        EXPECT_EQ(report["checks"][2]["check"], "pair");
        EXPECT_EQ(report["checks"][2]["timings"].size(), 6U);  // 4 · 3 / 2
    }
    EXPECT_FALSE(fs::exists(folder_ + "/flight-record"));
}

// Of a process, where it waits for connections over TCP (IPv4).
std::vector<std::int64_t> listening_ports(pid_t process) {
    const std::string folder = fmt::format("/proc/{}", process);
    std::set<std::string> sockets;
    for (const auto& entry : fs::directory_iterator(folder + "/fd")) {
        std::error_code closed;
        const std::string to = fs::read_symlink(entry.path(), closed);
        if (to.starts_with("socket:[")) sockets.insert(to.substr(8, to.size() - 9));
    }
    std::vector<std::int64_t> ports;
    std::istringstream table(content_of(folder + "/net/tcp"));
    std::string line;
    std::getline(table, line);  // the names of the columns
    while (std::getline(table, line)) {
        std::istringstream cells(line);
        std::string local, state, cell, inode;
        cells >> cell >> local >> cell >> state;
        for (int i = 0; i < 6; ++i)
            cells >> inode;
        if (state == "0A" && sockets.contains(inode))
            ports.push_back(std::stoll(local.substr(local.find(':') + 1), nullptr, 16));
    }
    return ports;
}

// Silent, junk, cut off, a rank of another run, and one that then sends what ranks send.
void send_as_stranger(const runtime::Socket& socket, int kind) {
    const auto greeting = runtime::greeting_of(runtime::run_key("run", "guess"), 1, 3, 0);
    const std::string junk = "GET / HTTP/1.1\r\nHost: gpu1\r\n\r\n";
    if (kind == 1) socket.send_all(std::as_bytes(std::span(junk)));
    if (kind == 2) socket.send_all(std::span(greeting).first(20));
    if (kind >= 3) socket.send_all(greeting);
    if (kind == 4) socket.send_all(runtime::MessageHead().encoded());
}

TEST_F(LaunchedRun, StrangersWhileItTrainsChangeNothing) {
    const Words steps = {"--json", "--steps", "40"};
    auto ranks = all_ranks(steps);
    ranks[0]->read_until("\"event\":\"step\"");
    std::vector<std::int64_t> ports;
    for (const auto& each : ranks)
        for (const std::int64_t port : listening_ports(each->process()))
            ports.push_back(port);
    ASSERT_GE(ports.size(), 3U) << "all ranks but the last wait for others";
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    std::vector<runtime::Socket> strangers;
    for (int i = 0; i < 300; ++i) {
        const std::int64_t port = ports[static_cast<std::size_t>(i) % ports.size()];
        strangers.push_back(runtime::connect_before("127.0.0.1", port, deadline));
        send_as_stranger(strangers.back(), i / 4 % 5);
    }
    EXPECT_FALSE(has_gone(ranks[0]->process())) << "it was still training";
    Words alone = words(steps);
    alone.insert(alone.end(), {"--set", "run.checkpoint.path=other"});
    std::map<std::int64_t, double> losses;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const Outcome outcome = ranks[rank]->outcome();
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        if (rank == 0) losses = losses_of(outcome.out);
    }
    EXPECT_EQ(losses.size(), 40U);
    EXPECT_EQ(losses, losses_of(perform(alone, {}).out));
}

TEST_F(LaunchedRun, SlurmsTasksMeetOnTheFirstHostOfTheStep) {
    std::vector<std::unique_ptr<Running>> tasks;
    const std::string job = std::to_string(getpid());
    for (int task = 0; task < kRanks; ++task)
        tasks.push_back(std::make_unique<Running>(words({"--steps", "1", "--json"}),
                                                  Settings{{"SLURM_JOB_ID", job},
                                                           {"SLURM_STEP_ID", "0"},
                                                           {"SLURM_PROCID", std::to_string(task)},
                                                           {"SLURM_NTASKS", "4"},
                                                           {"SLURM_LOCALID", std::to_string(task)},
                                                           {"SLURM_NODEID", "0"},
                                                           {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                                           {"SLURM_STEP_NODELIST", "localhost"}},
                                                  folder_, err_of(task)));
    for (const auto& task : tasks) {
        const Outcome outcome = task->outcome();
        EXPECT_EQ(outcome.code, 0) << outcome.err;
    }
    EXPECT_THAT(content_of(err_of(0)), HasSubstr("4 processes, started by Slurm"));
}

// Each process binds itself, by its number on the machine; the first says what all do.
TEST_F(LaunchedRun, RanksAreBoundByTheirNumberOnTheMachine) {
    const std::int64_t port = runtime::free_loopback_port();
    std::vector<std::unique_ptr<Running>> ranks;
    for (std::int64_t rank = 0; rank < kRanks; ++rank)
        ranks.push_back(std::make_unique<Running>(
            words({"--json", "--steps", "2", "--set", "run.bind=numa"}),
            torchruns_settings(rank, kRanks, port), folder_, err_of(rank)));
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
        const Outcome outcome = ranks[static_cast<std::size_t>(rank)]->outcome();
        if (outcome.code == 4 && outcome.err.find("tells of no NUMA nodes") != std::string::npos)
            GTEST_SKIP() << "this kernel has no NUMA nodes";
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        if (rank > 0) continue;
        const json start = json::parse(outcome.out.substr(0, outcome.out.find('\n')));
        EXPECT_EQ(start["binding"]["why_none"], nullptr);
        EXPECT_EQ(start["binding"]["ranks"].size(), static_cast<std::size_t>(kRanks));
    }
}

TEST_F(LaunchedRun, AnotherNumberOfProcessesThanRanksIsRefused) {
    Settings settings = torchruns_settings(0, 6, 1);
    const Outcome six = perform(words({}), settings);
    EXPECT_EQ(six.code, 2);
    EXPECT_EQ(six.err,
              "orrery train: 6 processes were started by torchrun, and the layout has 4 ranks: "
              "tensor 2 x context 1 x data 1 x pipeline 2 = 4\n"
              "  start 4 processes, or 4 processes with --set layout.data_parallel=1, or 8 "
              "processes with --set layout.data_parallel=2\n"
              "  --launcher none trains all 4 ranks in one process, as threads\n"
              "see: orrery train --help\n");
    const Outcome two = perform(words({}), torchruns_settings(0, 2, 1));
    EXPECT_EQ(two.code, 2);
    EXPECT_THAT(two.err,
                HasSubstr("  start 4 processes, or give the layout 2 ranks: --set "
                          "layout.tensor_parallel=1, or --set layout.pipeline_parallel=1"));
    const Outcome one = perform(words({"--steps", "1"}), torchruns_settings(0, 1, 1));
    EXPECT_EQ(one.code, 2);
    EXPECT_THAT(one.err,
                HasSubstr("1 process was started by torchrun, and the layout has 4 ranks"));
    EXPECT_EQ(
        perform(words({"--steps", "1", "--launcher", "none"}), torchruns_settings(0, 1, 1)).code,
        0);
    const Outcome other = perform(words({}), torchruns_settings(3, 6, 1));
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, StartsWith("orrery train: rank 3: 6 processes were started"));
}

TEST_F(LaunchedRun, LaunchersThatDisagreeAreRefused) {
    Settings both = torchruns_settings(1, 4, 1);
    both["OMPI_COMM_WORLD_RANK"] = "2";
    both["OMPI_COMM_WORLD_SIZE"] = "4";
    both["OMPI_COMM_WORLD_LOCAL_RANK"] = "2";
    both["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
    const Outcome refused = perform(words({}), both);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err,
              "orrery train: launchers do not agree on which rank of how many this process is:\n"
              "  torchrun: RANK=1, WORLD_SIZE=4\n"
              "  Open MPI: OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4\n"
              "say which one counts: --launcher torchrun, open-mpi or slurm; none for all ranks in "
              "this process\n");
    EXPECT_EQ(perform(words({"--steps", "1", "--launcher", "none"}), both).code, 0);
}

TEST_F(LaunchedRun, AKilledRankEndsTheOthers) {
    for (const std::size_t victim : {std::size_t{2}, std::size_t{0}}) {
        auto ranks = all_ranks({"--json"});
        ranks[0]->read_until("\"event\":\"checkpoint\"");
        kill(ranks[victim]->process(), SIGKILL);
        std::string out;
        for (std::size_t each = 0; each < ranks.size(); ++each) {
            const Outcome outcome = ranks[each]->outcome();
            if (each == 0) out = outcome.out;
            EXPECT_EQ(outcome.code, each == victim ? -SIGKILL : 6);
            if (each == victim) continue;
            EXPECT_THAT(outcome.err, HasSubstr(fmt::format("orrery train: rank {} on ", each)));
            EXPECT_THAT(outcome.err, HasSubstr(" cannot go on with "));
            EXPECT_THAT(outcome.err, HasSubstr(fmt::format(": rank {} on ", victim)));
            EXPECT_THAT(outcome.err, HasSubstr("orrery train: flight record: flight-record/rank-"));
            expect_record(static_cast<std::int64_t>(each), "has died or was cut off");
        }
        if (victim != 0) expect_resumable(out);
        fs::remove_all(folder_ + "/saved");
        fs::remove_all(folder_ + "/flight-record");
    }
}

// Those that wait end, and so does it, when it wakes.
TEST_F(LaunchedRun, AStoppedRankEndsTheOthersAfterTheTimeout) {
    auto ranks = all_ranks({"--json", "--timeout", sanitized() ? "3" : "1"});
    ranks[0]->read_until("\"event\":\"checkpoint\"");
    kill(ranks[1]->process(), SIGSTOP);
    for (const std::size_t each : {0, 2, 3}) {
        const Outcome outcome = ranks[each]->outcome();
        EXPECT_EQ(outcome.code, 6);
        EXPECT_THAT(outcome.err, HasSubstr(" waits in "));
        expect_record(static_cast<std::int64_t>(each), "waits in");
    }
    kill(ranks[1]->process(), SIGCONT);
    EXPECT_EQ(ranks[1]->outcome().code, 6);
}

// A rank whose launcher dies has nobody left who would end it.
TEST_F(LaunchedRun, RanksEndWithTheirLauncher) {
    // A shell is the launcher: of one rank, which has a whole layout to itself.
    Words alone = words({"--json"});
    alone.insert(alone.end(),
                 {"--set", "layout.tensor_parallel=1", "--set", "layout.pipeline_parallel=1"});
    std::string command;
    for (const std::string& word : alone)
        command += "'" + word + "' ";
    Running launcher({"bash", "-c", command + "& echo $!; wait"}, torchruns_settings(0, 1, 1),
                     folder_, err_of(0));
    launcher.read_until("\"event\":\"checkpoint\"");
    kill(launcher.process(), SIGKILL);
    const Outcome outcome = launcher.outcome();  // once the rank too has closed its stdout
    EXPECT_EQ(outcome.code, -SIGKILL);
    EXPECT_THAT(outcome.err, HasSubstr("the process that started it has gone"));
    const pid_t process = std::stoi(outcome.out);
    while (!has_gone(process))
        std::this_thread::sleep_for(1ms);
    expect_record(0, "the process that started it has gone");
}

TEST_F(LaunchedRun, SigtermLeavesRecordsOfThreadsToo) {
    Running run(words({"--json"}), {}, folder_, folder_ + "/err");
    run.read_until("\"event\":\"checkpoint\"");
    kill(run.process(), SIGTERM);
    const Outcome outcome = run.outcome();
    EXPECT_EQ(outcome.code, 130);
    EXPECT_THAT(outcome.err, HasSubstr("flight records of 4 ranks: flight-record/rank-*.json"));
    for (std::int64_t each = 0; each < kRanks; ++each)
        expect_record(each, "it was asked to end");
}

// Under mpirun: how long it took until the launcher had ended.
class UnderMpirun : public LaunchedRun {
  protected:
    void disturb(int signal, const std::string& transport, unsigned seed) {
        SCOPED_TRACE(fmt::format("signal {}, {}, seed {}", signal, transport, seed));
        std::mt19937 random(seed);
        fs::remove_all(folder_ + "/saved");
        fs::remove_all(folder_ + "/flight-record");
        Running mpirun(under_mpirun(kRanks, words({"--json", "--transport", transport, "--timeout",
                                                   sanitized() ? "4" : "2"})),
                       kMpiSettings, folder_, folder_ + "/err");
        for (unsigned saved = 0; saved <= random() % 5; ++saved)
            mpirun.read_until("\"event\":\"checkpoint\"");
        const auto ranks = ranks_of_mpirun(mpirun.process());
        ASSERT_EQ(ranks.size(), static_cast<std::size_t>(kRanks)) << mpirun.outcome().err;
        const auto victim = static_cast<std::int64_t>(random() % kRanks);
        const auto begin = std::chrono::steady_clock::now();
        kill(ranks.at(victim), signal);
        const Outcome outcome = mpirun.outcome();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        std::printf("rank %d, signal %d over %s: ended after %.2f s\n", static_cast<int>(victim),
                    signal, transport.c_str(), took.count());
        EXPECT_NE(outcome.code, 0);
        for (const auto& [each, process] : ranks) {
            while (!has_gone(process))
                std::this_thread::sleep_for(1ms);
            if (each == victim) continue;
            EXPECT_THAT(outcome.err, HasSubstr(fmt::format("orrery train: rank {} on ", each)));
            expect_record(each, signal == SIGKILL ? "has died" : "waits in");
        }
        expect_resumable(outcome.out);
    }

    void SetUp() override {
        if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed here";
    }

    static std::string transport(int number) {
        return number % 2 == 0 && runtime::has_mpi_messages() ? "mpi" : "tcp";
    }
};

TEST_F(UnderMpirun, RanksThatAreKilled) {
    for (int number = 0; number < count_of("ORRERY_KILLS", sanitized() ? 1 : 2); ++number)
        disturb(SIGKILL, transport(number), static_cast<unsigned>(number));
}

TEST_F(UnderMpirun, RanksThatAreStopped) {
    for (int number = 0; number < count_of("ORRERY_STOPS", 1); ++number)
        disturb(SIGSTOP, transport(number + 1), static_cast<unsigned>(number));
}

TEST_F(UnderMpirun, ASignalToMpirunLeavesNobody) {
    Running mpirun(under_mpirun(kRanks, words({"--json"})), kMpiSettings, folder_,
                   folder_ + "/err");
    mpirun.read_until("\"event\":\"checkpoint\"");
    const auto ranks = ranks_of_mpirun(mpirun.process());
    kill(mpirun.process(), SIGKILL);  // it cannot end them any more
    mpirun.outcome();
    for (const auto& [each, process] : ranks)
        while (!has_gone(process))
            std::this_thread::sleep_for(1ms);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
