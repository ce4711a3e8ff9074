// Where devices hang on PCI Express: how far a GPU is from a network adapter, and from which
// processors. Read from /sys/bus/pci, whose entries are links into the tree of bridges; a root
// stands before /sys, tests bring one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace orrery::runtime {

// "0000:1b:00.0", as the kernel spells it, of what NVML and CUDA say: "00000000:1B:00.0".
std::string pci_address(std::string bus_id);

struct PciDevice {
    std::string address;
    // From the host bridge to the device: "pci0000:15", "0000:15:01.0", …; empty: not said.
    std::vector<std::string> way;
    std::optional<int> numa_node;  // nothing: not said, as in most virtual machines
};

// Of this address; nothing but that where there is no such device.
PciDevice pci_device(const std::string& root, const std::string& address);

// How far two devices are from one another, the nearest first, in the words of `nvidia-smi topo -m`
// and of NCCL: over one PCIe switch at most; over several, but no host bridge; over a host bridge
// of the processor; over several of one NUMA node; from one NUMA node to another.
enum class Proximity { pix, pxb, phb, node, sys };

// "PIX", "PXB", "PHB", "NODE", "SYS".
const char* name(Proximity proximity);

// Nothing where the kernel does not say enough.
std::optional<Proximity> proximity(const PciDevice& a, const PciDevice& b);

// Whether PCIe ACS has the bridge send requests between devices below it up to the processor.
// Bridges without ACS do not. Nothing where this process may not read it (root alone may).
std::optional<bool> redirects_requests(const std::string& root, const std::string& bridge);

}  // namespace orrery::runtime
