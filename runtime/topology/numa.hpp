// Which processors share a memory: the NUMA nodes of this machine, as the kernel lists them, and
// which processors are left to this process. A root stands before /sys and /proc; tests bring one.
#pragma once

#include <string>
#include <vector>

#include "runtime/topology/cpu_list.hpp"

namespace orrery::runtime {

struct NumaNode {
    int number = 0;
    CpuList cpus;  // none: a node of memory alone
};

// By number; none where the kernel does not tell.
std::vector<NumaNode> numa_nodes(const std::string& root);

// What the control group leaves to this process (a container's or a job's cpuset), else all that
// are online; empty where the kernel does not tell.
CpuList cpus_of_cpuset(const std::string& root);

}  // namespace orrery::runtime
