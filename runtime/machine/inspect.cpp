#include "runtime/machine/inspect.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {

Machine inspect_machine(LibraryLoader& loader, const std::string& root,
                        const std::vector<std::string>& environment) {
    Machine machine;
    machine.built_with_cuda = ORRERY_CUDA_TOOLKIT;
    inspect_host(root, machine);
    machine.network = inspect_network(root);
    machine.interfaces = inspect_interfaces(root);
    machine.nccl_settings = read_nccl_settings(root, environment);
    inspect_nvidia(loader, machine);
    inspect_gpu_direct(root, machine);
    machine.libraries = inspect_libraries(loader);
    return machine;
}

const Library& Machine::library(const std::string& name) const {
    const auto found = std::find_if(libraries.begin(), libraries.end(),
                                    [&](const Library& one) { return one.name == name; });
    ORRERY_CHECK(found != libraries.end(), "no library of this name is looked for");
    return *found;
}

CpuList Machine::cpus_of(const Gpu& gpu) const {
    for (const NumaNode& node : numa_nodes)
        if (node.number == gpu.pci.numa_node) return node.cpus;
    return {};
}

std::string cuda_version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string library_version_text(std::int64_t code) {
    return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

}  // namespace orrery::runtime
