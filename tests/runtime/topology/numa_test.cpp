#include "runtime/topology/numa.hpp"

#include <gmock/gmock.h>

#include "tests/runtime/topology/fake_topology.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::IsEmpty;

TEST(NumaNodes, AreThoseThatTheKernelLists) {
    const std::string root = empty_root("numa-nodes");
    add_numa_nodes(root, {"0-1", "2-3", ""});  // the last: memory alone
    write_into(root, {{"/sys/devices/system/node/node10/cpulist", "4\n"},
                      {"/sys/devices/system/node/has_cpu", "0-1,10\n"}});
    const std::vector<NumaNode> nodes = numa_nodes(root);
    ASSERT_EQ(nodes.size(), 4U);
    EXPECT_EQ(nodes[1].number, 1);
    EXPECT_EQ(cpu_list_text(nodes[1].cpus), "2-3");
    EXPECT_THAT(nodes[2].cpus, IsEmpty());
    EXPECT_EQ(nodes[3].number, 10) << "by number, not by name";
    EXPECT_THAT(numa_nodes(empty_root("no-numa")), IsEmpty());
}

TEST(CpusOfCpuset, AreWhatTheControlGroupLeaves) {
    const std::string root = empty_root("cpuset");
    const auto cpus = [&] { return cpu_list_text(cpus_of_cpuset(root)); };
    EXPECT_EQ(cpus(), "");
    write_into(root, {{"/sys/devices/system/cpu/online", "0-7\n"}});
    EXPECT_EQ(cpus(), "0-7");
    write_into(root, {{"/proc/self/cgroup", "0::/pod/container\n"},
                      {"/sys/fs/cgroup/pod/cpuset.cpus.effective", "2-5\n"}});
    EXPECT_EQ(cpus(), "2-5") << "the group's parent's, which has the file";
    write_into(root, {{"/sys/fs/cgroup/pod/container/cpuset.cpus.effective", "3-4\n"}});
    EXPECT_EQ(cpus(), "3-4");
    // Version 1, beside a version 2 that has no cpuset.
    write_into(root, {{"/proc/self/cgroup", "5:memory:/job\n3:cpuset:/job\n0::/nowhere\n"},
                      {"/sys/fs/cgroup/cpuset/job/cpuset.effective_cpus", "6-7\n"}});
    EXPECT_EQ(cpus(), "6-7");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
