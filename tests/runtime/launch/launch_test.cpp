// Variables as torchrun, mpirun and srun set them, and half of them.
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/launch/launch.hpp"
#include "runtime/launch/slurm_lists.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch(const Variables& variables) {
    return launch_of_environment([&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    });
}

std::string error(const Variables& variables) {
    try {
        launch(variables);
    } catch (const LaunchError& fault) {
        return fault.what();
    }
    ADD_FAILURE() << "no error";
    return "";
}

const Variables kTorchrun = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "29500"}};

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "1928003585"}};

const Variables kSlurm = {{"SLURM_JOB_ID", "41"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "9"},
                          {"SLURM_NTASKS", "12"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "8,4"},
                          {"SLURM_STEP_NODELIST", "gpu[07-09,12]"}};

Variables with(Variables variables, const Variables& others) {
    for (const auto& [name, value] : others)
        variables[name] = value;
    return variables;
}

TEST(Launch, NobodyLaunchedUs) {
    EXPECT_FALSE(launch({}));
    EXPECT_FALSE(launch({{"MASTER_ADDR", "gpu1"}, {"MASTER_PORT", "29500"}, {"WORLD_SIZE", "2"}}));
    Variables shell = kSlurm;
    for (const char* step : {"4294967290", "4294967291"}) {  // salloc's shell, sbatch's script
        shell["SLURM_STEP_ID"] = step;
        EXPECT_FALSE(launch(shell)) << step;
    }
    shell.erase("SLURM_STEP_ID");
    EXPECT_FALSE(launch(shell));
}

TEST(Launch, ByTorchrun) {
    EXPECT_EQ(launch(kTorchrun),
              (Launch{Launcher::torchrun, 5, 8, 1, 4, "gpu1", 29500, "torchrun\n\n"}));
    EXPECT_EQ(launch(with(kTorchrun,
                          {{"TORCHELASTIC_RUN_ID", "job7"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}))
                  ->run,
              "torchrun\njob7\n2");
}

TEST(Launch, ASecretIsTheUsersOrOfAFile) {
    EXPECT_EQ(launch(kTorchrun)->secret, "");
    EXPECT_EQ(launch(with(kTorchrun, {{"ORRERY_RUN_SECRET", "abc"}}))->secret, "abc");
    const std::string path = testing::TempDir() + "secret";
    std::ofstream(path) << "of a file\n";
    EXPECT_EQ(launch(with(kTorchrun, {{"ORRERY_RUN_SECRET_FILE", path}}))->secret, "of a file");
    std::ofstream(path) << "\n";
    for (const std::string& bad : {path, path + "-not-there"})
        EXPECT_THROW(launch(with(kTorchrun, {{"ORRERY_RUN_SECRET_FILE", bad}})), LaunchError);
}

TEST(Launch, ByOpenMpiOnOneNodeMeetsOnItsLoopback) {
    const auto found = launch(kOpenMpi);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found,
              (Launch{Launcher::open_mpi, 3, 4, 3, 4, "127.0.0.1", found->port, found->run}));
    EXPECT_EQ(found->run, "Open MPI\n" + kOpenMpi.at("PMIX_NAMESPACE"));
    EXPECT_GE(found->port, 20'000);
    EXPECT_LT(found->port, 32'768) << "where Linux takes ports for others";
    EXPECT_NE(launch(with(kOpenMpi, {{"PMIX_NAMESPACE", "1928003586"}}))->port, found->port)
        << "two runs on one node";
}

TEST(Launch, ByOpenMpiOnSeveralNodesKnowsNoHost) {
    const Variables nodes =
        with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
    EXPECT_EQ(launch(nodes)->host, "");
    EXPECT_EQ(launch(with(nodes, {{"MASTER_ADDR", "gpu1"}}))->host, "gpu1");
}

TEST(Launch, BySlurm) {
    // 20000 + (41 × 61 + 0) mod 12000
    EXPECT_EQ(launch(kSlurm),
              (Launch{Launcher::slurm, 9, 12, 1, 4, "gpu07", 22501, "Slurm\n41\n0"}));
    EXPECT_EQ(launch(with(kSlurm, {{"SLURM_STEP_ID", "1"}}))->port, 22502);
    const Variables step = {{"SLURM_NTASKS", "96"}, {"SLURM_STEP_NUM_TASKS", "12"}};
    EXPECT_EQ(launch(with(kSlurm, step))->size, 12) << "the step's tasks, not the job's";
}

TEST(Launch, BySlurmWithTasksPerNodeAsOneNumber) {
    Variables variables = with(kSlurm, {{"SLURM_NTASKS_PER_NODE", "6"}});
    variables.erase("SLURM_STEP_TASKS_PER_NODE");
    EXPECT_EQ(launch(variables)->local_size, 6);
}

TEST(Launch, MeetsWhereTheUserSaysUnderEveryLauncher) {
    const Variables wish = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}};
    for (const Variables& variables : {kOpenMpi, kSlurm}) {
        const auto found = launch(with(variables, wish));
        EXPECT_EQ(found->host, "head");
        EXPECT_EQ(found->port, 1234);
    }
}

// Of what srun has started on each of two nodes: torchrun, and mpirun's daemon.
TEST(Launch, InnermostLauncherCounts) {
    const Variables agent = with(kSlurm, {{"SLURM_PROCID", "1"},
                                          {"SLURM_NTASKS", "2"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
    EXPECT_EQ(launch(with(agent, kTorchrun))->launcher, Launcher::torchrun);
    const Variables nodes = {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "7"}};
    const auto found = launch(with(with(agent, kOpenMpi), nodes));
    EXPECT_EQ(found->launcher, Launcher::open_mpi);
    EXPECT_EQ(found->rank, 7);
}

TEST(Launch, LaunchersThatSayTheSame) {
    const Variables same = {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}};
    EXPECT_EQ(launch(with(with(kSlurm, kOpenMpi), same))->launcher, Launcher::open_mpi);
}

TEST(Launch, LaunchersThatDisagree) {
    const Variables all = with(with(kSlurm, kOpenMpi), kTorchrun);
    EXPECT_EQ(error(all),
              "launchers do not agree on which rank of how many this process is:\n"
              "  torchrun: RANK=5, WORLD_SIZE=8\n"
              "  Open MPI: OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4\n"
              "  Slurm: SLURM_PROCID=9, SLURM_NTASKS=12\n"
              "say which one counts: --launcher torchrun, open-mpi or slurm; none for all ranks in "
              "this process");
    EXPECT_NE(error(with(kSlurm, kOpenMpi)).find("do not agree"), std::string::npos);
    const VariableLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = all.find(name);
        if (found == all.end()) return std::nullopt;
        return found->second;
    };
    EXPECT_EQ(launch_of_environment(lookup, Launcher::torchrun)->rank, 5);
    EXPECT_EQ(launch_of_environment(lookup, Launcher::open_mpi)->rank, 3);
    EXPECT_EQ(launch_of_environment(lookup, Launcher::slurm)->rank, 9);
}

TEST(Launch, ALauncherThatIsAskedForAndDidNotStartUs) {
    const VariableLookup nothing = [](const std::string&) { return std::nullopt; };
    EXPECT_THROW(launch_of_environment(nothing, Launcher::slurm), LaunchError);
}

TEST(Launch, HalfOfTorchrunsVariables) {
    EXPECT_EQ(error({{"RANK", "x3"}, {"WORLD_SIZE", "0"}, {"MASTER_PORT", "70000"}}),
              "the variables of torchrun do not say which rank of what run this process is:\n"
              "  RANK=x3: the number of this rank is needed, from 0 to 1000000000\n"
              "  WORLD_SIZE=0: the number of ranks is needed, from 1 to 1000000000\n"
              "  LOCAL_RANK is not set: the number of this rank among those of its node is needed\n"
              "  LOCAL_WORLD_SIZE is not set: the number of ranks on this node is needed\n"
              "  MASTER_PORT=70000: the port where rank 0 waits for others is needed, from 1 to "
              "65535\n"
              "  MASTER_ADDR is not set: the host of rank 0 is needed");
}

TEST(Launch, VariablesThatContradictOneAnother) {
    const Variables wrong = {{"RANK", "8"}, {"LOCAL_RANK", "9"}, {"LOCAL_WORLD_SIZE", "9"}};
    EXPECT_EQ(error(with(kTorchrun, wrong)),
              "the variables of torchrun do not say which rank of what run this process is:\n"
              "  rank 8 of 8: a rank below the number of ranks is needed\n"
              "  rank 9 of 9 on this node: one below their number is needed\n"
              "  9 ranks on this node, of 8 in all: no more than all are needed");
}

TEST(Launch, EveryVariableOfALauncherIsNeededOrHasAStandIn) {
    const std::set<std::string> stand_in = {"PMIX_NAMESPACE", "SLURM_NODEID"};
    for (const Variables& whole : {kTorchrun, kOpenMpi, kSlurm})
        for (const auto& [name, value] : whole) {
            Variables lacking = whole;
            lacking.erase(name);
            if (stand_in.count(name) > 0 || name == "SLURM_PROCID" || name == "SLURM_STEP_ID")
                continue;  // without these two there is no step
            EXPECT_NE(error(lacking).find("is not set"), std::string::npos) << name;
        }
}

TEST(Launch, SlurmListsThatCannotBeRead) {
    EXPECT_EQ(error(with(kSlurm,
                         {{"SLURM_STEP_NODELIST", "gpu[7-"}, {"SLURM_STEP_TASKS_PER_NODE", "8"}})),
              "the variables of Slurm do not say which rank of what run this process is:\n"
              "  SLURM_STEP_TASKS_PER_NODE=8: the number of tasks on node 1 is needed, as in "
              "8(x3),4\n"
              "  SLURM_STEP_NODELIST=gpu[7-: a list of hosts is needed");
}

TEST(Launch, ByALauncherThatIsNotKnown) {
    EXPECT_EQ(error({{"PMI_RANK", "1"}}),
              "PMI_RANK=1: started by a launcher that is not known; known are torchrun, Open MPI's "
              "mpirun and Slurm's srun");
}

TEST(SlurmLists, FirstHost) {
    EXPECT_EQ(first_host("login"), "login");
    EXPECT_EQ(first_host("gpu07,gpu08"), "gpu07");
    EXPECT_EQ(first_host("gpu[07-09,12],login"), "gpu07");
    EXPECT_EQ(first_host("gpu[12]"), "gpu12");
    EXPECT_EQ(first_host("rack[2-3]n[01-04].cluster"), "rack2n01.cluster");
    for (const char* wrong : {"", ",a", "a[", "a[]", "a[x-y]", "a]", "a[1-2"})
        EXPECT_FALSE(first_host(wrong)) << wrong;
}

TEST(SlurmLists, TasksOfNode) {
    const std::string list = "8(x3),4,2(x2)";
    const std::vector<std::int64_t> tasks = {8, 8, 8, 4, 2, 2};
    for (std::size_t node = 0; node < tasks.size(); ++node)
        EXPECT_EQ(tasks_of_node(list, static_cast<std::int64_t>(node)), tasks[node]) << node;
    EXPECT_FALSE(tasks_of_node(list, 6));
    for (const char* wrong : {"", "x", "8(x", "8(x)", "8(3)", "-8"})
        EXPECT_FALSE(tasks_of_node(wrong, 0)) << wrong;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
