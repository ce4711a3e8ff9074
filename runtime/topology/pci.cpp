#include "runtime/topology/pci.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "runtime/topology/kernel_file.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& root, const std::string& address) {
    return fs::path(root + "/sys/bus/pci/devices") / address;
}

// A device's configuration space: 4096 bytes on PCI Express, 64 for those who may not read it.
class Configuration {
  public:
    explicit Configuration(const fs::path& file) {
        std::ifstream stream(file, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    }
    std::size_t size() const { return bytes_.size(); }
    std::uint32_t word(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
    std::uint32_t double_word(std::size_t at) const { return word(at) | word(at + 2) << 16; }

  private:
    std::uint32_t byte(std::size_t at) const {
        return at < bytes_.size() ? static_cast<unsigned char>(bytes_[at]) : 0;
    }
    std::string bytes_;
};

}  // namespace

std::string pci_address(std::string bus_id) {
    constexpr std::size_t kLength = 12;  // of one whose domain has four digits
    std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    while (bus_id.size() > kLength && bus_id.front() == '0')
        bus_id.erase(0, 1);
    return bus_id;
}

PciDevice pci_device(const std::string& root, const std::string& address) {
    PciDevice device;
    device.address = address;
    if (address.empty()) return device;
    const fs::path folder = folder_of(root, address);
    std::error_code missing;
    for (const fs::path& step : fs::canonical(folder, missing)) {
        // What comes before the host bridge is no PCI: "sys", "devices", in Azure a VMBus.
        const std::string name = step.string();
        const bool host_bridge = name.rfind("pci", 0) == 0 && name.find(':') != std::string::npos;
        if (host_bridge || !device.way.empty()) device.way.push_back(name);
    }
    int node = -1;
    if (std::istringstream(first_line(folder / "numa_node")) >> node && node >= 0)
        device.numa_node = node;
    return device;
}

const char* name(Proximity proximity) {
    constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
    return kNames[static_cast<std::size_t>(proximity)];
}

// Bridges of PCI in the kernel's tree are ports: two devices on one switch have the switch's upper
// port in common, and may each have a lower port of their own. That is NCCL's rule, too.
std::optional<Proximity> proximity(const PciDevice& a, const PciDevice& b) {
    if (a.way.empty() || b.way.empty()) return std::nullopt;
    const auto parts = std::mismatch(a.way.begin(), a.way.end(), b.way.begin(), b.way.end());
    const auto shared = static_cast<std::size_t>(parts.first - a.way.begin());
    if (shared > 1) {
        constexpr std::size_t kOfOneSwitch = 2;  // a lower port and the device
        const std::size_t below = std::max(a.way.size(), b.way.size()) - shared;
        return below <= kOfOneSwitch ? Proximity::pix : Proximity::pxb;
    }
    if (shared == 1) return Proximity::phb;
    if (!a.numa_node || !b.numa_node) return std::nullopt;
    return *a.numa_node == *b.numa_node ? Proximity::node : Proximity::sys;
}

// PCI Express Base Specification, 7.7.8 (in 5.0): the extended capability with number 13, whose
// control register follows six bytes on, with bit 2 for requests.
std::optional<bool> redirects_requests(const std::string& root, const std::string& bridge) {
    constexpr std::size_t kFirst = 0x100, kLast = 0xffc;
    constexpr int kMost = (0x1000 - 0x100) / 4;  // a damaged list ends as well
    constexpr std::uint32_t kAccessControl = 0x000d, kRequestRedirect = 1 << 2;
    const Configuration configuration(folder_of(root, bridge) / "config");
    if (configuration.size() <= kFirst) return std::nullopt;
    std::size_t at = kFirst;
    for (int left = kMost; left > 0 && at >= kFirst && at <= kLast; --left) {
        const std::uint32_t header = configuration.double_word(at);
        if ((header & 0xffff) == kAccessControl)
            return (configuration.word(at + 6) & kRequestRedirect) != 0;
        at = header >> 20;  // 0: it was the last
    }
    return false;
}

}  // namespace orrery::runtime
