// Network ports as the kernel lists them: /sys/class/infiniband (InfiniBand, and RoCE on Ethernet),
// /sys/class/net. Interfaces without a device behind them (bridges, the loopback) are left out.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "runtime/machine/inspect.hpp"
#include "runtime/topology/kernel_file.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<double> positive(const std::string& text) {
    double value = 0;
    if (std::istringstream(text) >> value && value > 0) return value;
    return std::nullopt;
}

// state is "4: ACTIVE", rate "400 Gb/sec (4X NDR)".
NetworkPort infiniband_port(const fs::path& device, const fs::path& port) {
    NetworkPort result;
    result.name = device.filename().string() + "/" + port.filename().string();
    result.kind = first_line(port / "link_layer") == "Ethernet" ? "RoCE" : "InfiniBand";
    const std::string state = first_line(port / "state");
    result.state = state.substr(std::min(state.size(), state.find(' ') + 1));
    std::transform(result.state.begin(), result.state.end(), result.state.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    result.gigabits_per_s = positive(first_line(port / "rate"));
    return result;
}

}  // namespace

std::vector<std::string> inspect_interfaces(const std::string& root) {
    std::vector<std::string> names;
    for (const fs::path& interface : entries(root + "/sys/class/net"))
        names.push_back(interface.filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<NetworkPort> inspect_network(const std::string& root) {
    std::vector<NetworkPort> ports;
    for (const fs::path& device : entries(root + "/sys/class/infiniband"))
        for (const fs::path& port : entries(device / "ports"))
            ports.push_back(infiniband_port(device, port));
    for (const fs::path& interface : entries(root + "/sys/class/net")) {
        if (!fs::exists(interface / "device")) continue;
        NetworkPort port{interface.filename().string(), "Ethernet",
                         first_line(interface / "operstate"),
                         positive(first_line(interface / "speed"))};  // -1: not known
        if (port.gigabits_per_s) *port.gigabits_per_s /= 1000;        // of Mb/s
        ports.push_back(std::move(port));
    }
    std::sort(ports.begin(), ports.end(), [](const NetworkPort& a, const NetworkPort& b) {
        const bool a_is_ethernet = a.kind == "Ethernet";
        const bool b_is_ethernet = b.kind == "Ethernet";
        return std::tie(a_is_ethernet, a.name) < std::tie(b_is_ethernet, b.name);
    });
    return ports;
}

}  // namespace orrery::runtime
