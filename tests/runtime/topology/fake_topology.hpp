// Machines that a test makes up: folders that stand for the root, with what the kernel says in /sys
// and /proc of processors, memory and PCI.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace orrery::runtime {

inline void write_into(const std::string& root, const std::map<std::string, std::string>& files) {
    for (const auto& [path, text] : files) {
        std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
        std::ofstream(root + path, std::ios::binary) << text;
    }
}

// A folder that stands for the root, with these files and what an earlier call left there.
inline std::string fake_root(const std::string& name,
                             const std::map<std::string, std::string>& files) {
    const std::string root = testing::TempDir() + name;
    write_into(root, files);
    return root;
}

// A new one, with nothing of an earlier test.
inline std::string empty_root(const std::string& name) {
    const std::string root = testing::TempDir() + name;
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    return root;
}

// A device or a bridge: `way` is "pci0000:15/0000:15:01.0/0000:16:00.0".
inline void add_pci(const std::string& root, const std::string& way, int numa_node) {
    const std::string address = way.substr(way.rfind('/') + 1);
    write_into(root, {{"/sys/devices/" + way + "/numa_node", fmt::format("{}\n", numa_node)}});
    const std::string list = root + "/sys/bus/pci/devices";
    std::filesystem::create_directories(list);
    std::filesystem::create_symlink("../../../devices/" + way, list + '/' + address);
}

// One of InfiniBand, at a device of PCI.
inline void add_adapter(const std::string& root, const std::string& name, const std::string& way) {
    const std::string folder = "/sys/class/infiniband/" + name;
    write_into(root, {{folder + "/ports/1/link_layer", "InfiniBand\n"},
                      {folder + "/ports/1/state", "4: ACTIVE\n"},
                      {folder + "/ports/1/rate", "400 Gb/sec (4X NDR)\n"}});
    std::filesystem::create_symlink("../../../devices/" + way, root + folder + "/device");
}

// Nodes of the processor, by number: {"0-55,112-167", "56-111,168-223"}.
inline void add_numa_nodes(const std::string& root, const std::vector<std::string>& cpus) {
    for (std::size_t node = 0; node < cpus.size(); ++node)
        write_into(root, {{fmt::format("/sys/devices/system/node/node{}/cpulist", node),
                           cpus[node] + '\n'}});
}

// As a DGX H100: two sockets of 56 cores with two hyperthreads each, eight GPUs and eight adapters,
// four each to a socket; a GPU and its adapter below a PCIe switch of their own, whose upper port
// is at bus B + 1 and whose lower ports are at bus B + 2, where B is the host bridge's.
inline std::string fake_dgx(const std::string& name) {
    const std::string root = empty_root(name);
    add_numa_nodes(root, {"0-55,112-167", "56-111,168-223"});
    write_into(root, {{"/sys/devices/system/cpu/online", "0-223\n"}});
    const struct {
        int bridge, adapter, gpu;
    } switches[] = {{0x15, 0x18, 0x1b}, {0x37, 0x40, 0x43}, {0x48, 0x4f, 0x52}, {0x57, 0x5e, 0x61},
                    {0x97, 0x9a, 0x9d}, {0xb7, 0xc0, 0xc3}, {0xc7, 0xce, 0xd1}, {0xd7, 0xdc, 0xdf}};
    for (int i = 0; i < 8; ++i) {
        const auto& [bridge, adapter, gpu] = switches[i];
        const int node = i / 4;
        const std::string port = fmt::format("pci0000:{:02x}/0000:{:02x}:01.0", bridge, bridge);
        const std::string upper = fmt::format("{}/0000:{:02x}:00.0", port, bridge + 1);
        const std::string lower = fmt::format("{}/0000:{:02x}:0", upper, bridge + 2);
        for (const std::string& way : {port, upper, lower + "0.0", lower + "1.0"})
            add_pci(root, way, node);
        const std::string of_adapter = fmt::format("{}0.0/0000:{:02x}:00.0", lower, adapter);
        add_pci(root, of_adapter, node);
        add_adapter(root, fmt::format("mlx5_{}", i), of_adapter);
        add_pci(root, fmt::format("{}1.0/0000:{:02x}:00.0", lower, gpu), node);
    }
    return root;
}

}  // namespace orrery::runtime
