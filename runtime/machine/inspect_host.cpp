// Processor, memory and limits: /proc, the control group (version 2), /dev/shm.
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/cpu/kernels.hpp"
#include "runtime/launch/bind_thread.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::runtime {
namespace {

Processor read_processor(const std::string& root) {
    Processor processor;
    processor.model = "unknown";
    processor.cores = 0;
    std::set<std::string> sockets;
    std::ifstream file(root + "/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string key = line.substr(0, line.find_first_of("\t:"));
        if (key == "processor") ++processor.cores;
        if (key == "model name") processor.model = line.substr(colon + 2);
        if (key == "physical id") sockets.insert(line.substr(colon + 2));
    }
    processor.sockets = std::max(1, static_cast<int>(sockets.size()));
    processor.usable = std::max(1, static_cast<int>(allowed_cpus().size()));
    processor.cores = std::max(processor.cores, processor.usable);
    double microseconds = 0;
    double period = 0;
    if (std::ifstream(root + "/sys/fs/cgroup/cpu.max") >> microseconds >> period && period > 0)
        processor.quota = microseconds / period;  // "max 100000" gives none
    processor.kernels = kernels().instruction_set;
    return processor;
}

Memory read_memory(const std::string& root) {
    Memory memory;
    std::ifstream file(root + "/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string key;
        std::int64_t kibibytes = 0;
        words >> key >> kibibytes;
        if (key == "MemTotal:") memory.total_bytes = kibibytes * 1024;
        if (key == "MemAvailable:") memory.available_bytes = kibibytes * 1024;
    }
    std::int64_t limit = 0;
    if (std::ifstream(root + "/sys/fs/cgroup/memory.max") >> limit && limit < memory.total_bytes)
        memory.limit_bytes = limit;
    return memory;
}

// The soft limit of a line of /proc/self/limits: "Max open files   1024   524288   files".
std::optional<std::int64_t> soft_limit(const std::string& line, const std::string& name) {
    std::int64_t value = 0;
    if (std::istringstream(line.substr(name.size())) >> value) return value;
    return std::nullopt;  // "unlimited"
}

Limits read_limits(const std::string& root) {
    Limits limits;
    std::ifstream file(root + "/proc/self/limits");
    for (std::string line; std::getline(file, line);)
        for (const auto& [name, value] : {std::pair{"Max locked memory", &limits.locked_bytes},
                                          std::pair{"Max open files", &limits.open_files}})
            if (line.rfind(name, 0) == 0) *value = soft_limit(line, name);
    struct statvfs shared {};
    if (statvfs((root + "/dev/shm").c_str(), &shared) == 0)
        limits.shared_memory_bytes = static_cast<std::int64_t>(shared.f_blocks * shared.f_frsize);
    return limits;
}

}  // namespace

void inspect_host(const std::string& root, Machine& machine) {
    machine.processor = read_processor(root);
    machine.memory = read_memory(root);
    machine.limits = read_limits(root);
    machine.numa_nodes = numa_nodes(root);
}

}  // namespace orrery::runtime
