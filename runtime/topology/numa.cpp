#include "runtime/topology/numa.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/topology/kernel_file.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

// A line of /proc/self/cgroup: "0::/system.slice/job" (version 2), or "3:cpuset:/job" (version 1).
// Where the group itself has no such file, it has its parent's processors.
CpuList cpus_of_group(const std::string& root, const std::string& line) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) return {};
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "cpuset") return {};
    const fs::path folder =
        root + (controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpuset");
    const char* const file =
        controllers.empty() ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
    for (fs::path group = line.substr(second + 1);; group = group.parent_path()) {
        const CpuList cpus = parse_cpu_list(first_line(folder / group.relative_path() / file));
        if (!cpus.empty() || !group.has_relative_path()) return cpus;
    }
}

}  // namespace

std::vector<NumaNode> numa_nodes(const std::string& root) {
    std::vector<NumaNode> nodes;
    for (const fs::path& folder : entries(root + "/sys/devices/system/node")) {
        const std::string name = folder.filename().string();
        if (name.rfind("node", 0) != 0) continue;
        const CpuList number = parse_cpu_list(name.substr(4));
        if (number.size() != 1) continue;
        nodes.push_back({number.front(), parse_cpu_list(first_line(folder / "cpulist"))});
    }
    std::sort(nodes.begin(), nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
    return nodes;
}

CpuList cpus_of_cpuset(const std::string& root) {
    const CpuList online = parse_cpu_list(first_line(root + "/sys/devices/system/cpu/online"));
    std::ifstream groups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);)
        if (const CpuList cpus = cpus_of_group(root, line); !cpus.empty()) return cpus;
    return online;
}

}  // namespace orrery::runtime
