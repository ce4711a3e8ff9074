// Which rank goes where, on machines that are made up; and the calling thread, on this one.
#include "runtime/launch/binding.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>

#include "runtime/launch/bind_thread.hpp"
#include "tests/runtime/topology/fake_topology.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::BindTo;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As a process finds them: all of these nodes' cores, unless the control group or a launcher leaves
// it fewer.
Processors processors(const std::vector<std::string>& nodes, const std::string& cpuset = "",
                      const std::string& allowed = "") {
    Processors all;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        all.nodes.push_back({static_cast<int>(node), parse_cpu_list(nodes[node])});
        all.cpuset.insert(all.cpuset.end(), all.nodes.back().cpus.begin(),
                          all.nodes.back().cpus.end());
    }
    std::sort(all.cpuset.begin(), all.cpuset.end());
    if (!cpuset.empty()) all.cpuset = parse_cpu_list(cpuset);
    all.allowed = allowed.empty() ? all.cpuset : parse_cpu_list(allowed);
    return all;
}

const std::vector<std::string> kDgxNodes = {"0-55,112-167", "56-111,168-223"};

// Of ranks that have one each, in this order; −1: the kernel does not say.
std::vector<RankDevice> gpus_of_nodes(const std::vector<int>& nodes) {
    std::vector<RankDevice> devices;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        PciDevice pci;
        pci.address = fmt::format("0000:{:02x}:00.0", 0x10 + rank);
        if (nodes[rank] >= 0) pci.numa_node = nodes[rank];
        devices.push_back({static_cast<std::int64_t>(rank), pci});
    }
    return devices;
}

std::string why_refused(const std::function<void()>& call) {
    try {
        call();
    } catch (const BindingError& error) {
        return error.what();
    }
    return "it is not";
}

TEST(BindToGpus, TakesTheNodeThatEachGpuIsOf) {
    const std::string root = fake_dgx("binding-dgx");
    const Processors dgx{numa_nodes(root), cpus_of_cpuset(root), cpus_of_cpuset(root)};
    std::vector<RankDevice> devices;
    for (const char* address : {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
                                "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"})
        devices.push_back({static_cast<std::int64_t>(devices.size()), pci_device(root, address)});
    const Binding binding = bind_to_gpus(BindTo::automatic, dgx, devices);
    ASSERT_EQ(binding.ranks.size(), 8U);
    for (std::int64_t rank = 0; rank < 8; ++rank) {
        ASSERT_NE(binding.of(rank), nullptr);
        EXPECT_EQ(cpu_list_text(binding.of(rank)->cpus),
                  kDgxNodes[static_cast<std::size_t>(rank / 4)]);
        EXPECT_THAT(binding.of(rank)->nodes, ElementsAre(rank / 4));
    }
    EXPECT_TRUE(binding.worth_telling);
    EXPECT_EQ(binding_text(binding),
              "ranks 0-3 to NUMA node 0 (cores 0-55,112-167); ranks 4-7 to NUMA node 1 (cores "
              "56-111,168-223)");
    // The GPU decides, not the rank's number; and `numa` comes to the same.
    const Binding swapped =
        bind_to_gpus(BindTo::numa, dgx, {{0, devices[5].pci}, {1, devices[2].pci}});
    EXPECT_THAT(swapped.of(0)->nodes, ElementsAre(1));
    EXPECT_THAT(swapped.of(1)->nodes, ElementsAre(0));
    EXPECT_EQ(swapped.of(2), nullptr);
}

TEST(BindToGpus, LeavesARankWhoseGpuNobodyPlaces) {
    const Processors two = processors({"0-47", "48-95"});
    const Binding binding = bind_to_gpus(BindTo::automatic, two, gpus_of_nodes({0, -1}));
    EXPECT_EQ(binding_text(binding),
              "rank 0 to NUMA node 0 (cores 0-47); rank 1 not: the system does not say which NUMA "
              "node GPU 0000:11:00.0 is of");
    EXPECT_EQ(binding.of(1), nullptr);
    EXPECT_EQ(why_refused([&] {
                  bind_to_gpus(BindTo::numa, two, gpus_of_nodes({0, -1}));
              }),
              "run.bind \"numa\": rank 1 of this machine: the system does not say which NUMA node "
              "GPU 0000:11:00.0 is of");
    // Where there is one node it need not be said.
    const Processors one = processors({"0-47"});
    EXPECT_THAT(bind_to_gpus(BindTo::numa, one, gpus_of_nodes({-1})).of(0)->nodes, ElementsAre(0));
    const Binding moot = bind_to_gpus(BindTo::automatic, one, gpus_of_nodes({-1}));
    EXPECT_EQ(moot.why_none, "all cores are of one NUMA node");
    EXPECT_FALSE(moot.worth_telling);
}

// A container with cores 0 and 1 of the DGX: nobody has bound its process within them.
TEST(BindToGpus, KeepsToTheCoresThatACpusetLeaves) {
    const Processors two_cores = processors(kDgxNodes, "0-1");
    const Binding binding = bind_to_gpus(BindTo::automatic, two_cores, gpus_of_nodes({0, 1}));
    EXPECT_THAT(binding.of(0)->cpus, ElementsAre(0, 1));
    EXPECT_EQ(binding.of(1), nullptr);
    const std::string none =
        "of the cores of NUMA node 1 (56-111,168-223), which GPU 0000:11:00.0 is of, this process "
        "may use none: it has 0-1";
    EXPECT_EQ(binding.ranks[1].why_not, none);
    EXPECT_EQ(why_refused([&] {
                  bind_to_gpus(BindTo::numa, two_cores, gpus_of_nodes({0, 1}));
              }),
              "run.bind \"numa\": rank 1 of this machine: " + none);
}

TEST(BindToGpus, ANodeOfMemoryAloneHasNoCores) {
    Processors with_memory = processors({"0-3", "4-7", ""});
    const Binding binding = bind_to_gpus(BindTo::automatic, with_memory, gpus_of_nodes({2}));
    EXPECT_EQ(binding.ranks.at(0).why_not, "NUMA node 2, of GPU 0000:10:00.0, has no cores");
}

TEST(Binding, LeavesAProcessThatALauncherHasBound) {
    const Processors bound = processors(kDgxNodes, "", "56-59");
    for (const Binding& binding : {bind_to_gpus(BindTo::automatic, bound, gpus_of_nodes({1})),
                                   share_nodes(BindTo::automatic, bound, 2)}) {
        EXPECT_THAT(binding.ranks, IsEmpty());
        EXPECT_EQ(binding_text(binding),
                  "none: what started this process has bound it to cores 56-59 of 0-223 (--set "
                  "run.bind=numa binds within them)");
        EXPECT_TRUE(binding.worth_telling);
    }
    EXPECT_THAT(bind_to_gpus(BindTo::numa, bound, gpus_of_nodes({1})).of(0)->cpus,
                ElementsAre(56, 57, 58, 59));
    EXPECT_THAT(why_refused([&] { bind_to_gpus(BindTo::numa, bound, gpus_of_nodes({0})); }),
                HasSubstr("this process may use none: it has 56-59"));
}

TEST(Binding, IsNoneWhereItIsNotAskedForOrNothingIsKnown) {
    const Binding none = share_nodes(BindTo::none, processors(kDgxNodes), 2);
    EXPECT_THAT(none.ranks, IsEmpty());
    EXPECT_EQ(none.why_none, "run.bind is \"none\"");
    EXPECT_FALSE(none.worth_telling);
    const Binding unknown = share_nodes(BindTo::automatic, processors({}), 2);
    EXPECT_EQ(unknown.why_none, "the kernel tells of no NUMA nodes");
    EXPECT_FALSE(unknown.worth_telling);
    EXPECT_EQ(why_refused([] { share_nodes(BindTo::numa, processors({}), 2); }),
              "run.bind \"numa\": the kernel tells of no NUMA nodes");
}

std::vector<std::vector<int>> nodes_of_shares(const Processors& of, std::int64_t ranks) {
    std::vector<std::vector<int>> nodes;
    for (const RankBinding& rank : share_nodes(BindTo::automatic, of, ranks).ranks)
        nodes.push_back(rank.nodes);
    return nodes;
}

using Nodes = std::vector<std::vector<int>>;

// Of C cores rank r of R has those from C r / R on, in the order of nodes.
TEST(ShareNodes, GivesEachRankTheNodesOfItsShare) {
    const Processors two = processors({"0-3", "4-7"});
    EXPECT_EQ(nodes_of_shares(two, 2), (Nodes{{0}, {1}}));
    EXPECT_EQ(nodes_of_shares(two, 4), (Nodes{{0}, {0}, {1}, {1}}));
    EXPECT_EQ(nodes_of_shares(two, 1), (Nodes{{0, 1}}));
    EXPECT_EQ(nodes_of_shares(two, 3), (Nodes{{0}, {0, 1}, {1}})) << "cores 0-1, 2-4, 5-7";
    EXPECT_EQ(nodes_of_shares(two, 16).at(7), (std::vector{0})) << "ranks 6 and 7 share core 3";
    EXPECT_EQ(nodes_of_shares(two, 16).at(8), (std::vector{1}));
    // A cpuset leaves one core of node 0 and three of node 1: two for each rank.
    EXPECT_EQ(nodes_of_shares(processors({"0-3", "4-7"}, "3-6"), 2), (Nodes{{0, 1}, {1}}));
    EXPECT_EQ(nodes_of_shares(processors({"0-3", "4-7"}, "5-6"), 2), (Nodes{{1}, {1}}));
    const Binding straddles = share_nodes(BindTo::automatic, two, 1);
    EXPECT_EQ(binding_text(straddles), "rank 0 to NUMA nodes 0,1 (cores 0-7)");
}

// Core c has hyperthreads c and c + 4: both are of its node, and so of all ranks there.
TEST(ShareNodes, KeepsHyperthreadsTogether) {
    const Processors threads = processors({"0-1,4-5", "2-3,6-7"});
    const Binding binding = share_nodes(BindTo::automatic, threads, 4);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
        const CpuList& cpus = binding.of(rank)->cpus;
        EXPECT_EQ(cpu_list_text(cpus), rank < 2 ? "0-1,4-5" : "2-3,6-7");
        for (const int cpu : cpus)
            EXPECT_EQ(std::count(cpus.begin(), cpus.end(), (cpu + 4) % 8), 1);
    }
}

TEST(ShareNodes, ACpusetMayLeaveNoCoreOfANode) {
    const Processors elsewhere = processors({"0-3", "4-7"}, "8-9");
    EXPECT_EQ(share_nodes(BindTo::automatic, elsewhere, 2).why_none,
              "no core that this process may use is of a NUMA node");
    EXPECT_EQ(why_refused([&] { share_nodes(BindTo::numa, elsewhere, 2); }),
              "run.bind \"numa\": no core that this process may use is of a NUMA node");
}

RankBinding to_cores(CpuList cpus, std::vector<int> nodes) {
    RankBinding rank;
    rank.cpus = std::move(cpus);
    rank.nodes = std::move(nodes);
    return rank;
}

TEST(BindThread, IsOfTheThreadAndOfThoseThatItStarts) {
    const CpuList before = allowed_cpus();
    ASSERT_FALSE(before.empty());
    const CpuList last = {before.back()};
    const Processors here = processors_of_process();
    const int node = here.nodes.empty() ? 0 : here.nodes.front().number;
    CpuList bound, below;
    Refused refused;
    int policy = -1;
    long asked = -1;
    std::thread([&] {
        refused = bind_thread(to_cores(last, {node}));
        bound = allowed_cpus();
        std::thread([&] {
            below = allowed_cpus();
            asked = syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL);
        }).join();
    }).join();
    EXPECT_EQ(refused.cores, "");
    EXPECT_EQ(bound, last);
    EXPECT_EQ(below, last);
    if (asked == 0 && refused.memory.empty()) {  // a container may forbid both
        EXPECT_EQ(policy, MPOL_PREFERRED);
    }
    EXPECT_EQ(allowed_cpus(), before) << "this thread is as it was";
}

TEST(BindThread, WhatTheSystemRefusesIsKnownBeforehand) {
    const CpuList before = allowed_cpus();
    Binding binding;
    binding.ranks = {to_cores(before, {}), to_cores({before.back() + 4000}, {})};  // no such core
    EXPECT_THROW(tried(BindTo::numa, binding), BindingError);
    const Binding none = tried(BindTo::automatic, binding);
    EXPECT_THAT(none.ranks, IsEmpty());
    EXPECT_EQ(none.why_none,
              "the system does not let this process choose its cores (sched_setaffinity: Invalid "
              "argument)");
    binding.ranks.pop_back();
    EXPECT_EQ(tried(BindTo::numa, binding).ranks.size(), 1U);
    EXPECT_EQ(allowed_cpus(), before);
}

TEST(ProcessorsOfProcess, AreThoseOfThisMachine) {
    const Processors here = processors_of_process();
    EXPECT_EQ(here.allowed, allowed_cpus());
    EXPECT_EQ(in_both(here.cpuset, here.allowed), here.allowed);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
