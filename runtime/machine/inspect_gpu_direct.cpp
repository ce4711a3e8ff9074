// GPUDirect RDMA: adapters that read and write GPUs' memory without the host's between. The kernel
// lets them either by a module that registers the driver with it (nvidia_peermem, before it
// nv_peer_mem), or by dma-buf, which it has since 5.12 and the driver's open modules hand out.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/machine/inspect.hpp"
#include "runtime/topology/kernel_file.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<Adapter> read_adapters(const std::string& root, const std::vector<Gpu>& gpus) {
    std::vector<Adapter> adapters;
    for (const fs::path& folder : entries(root + "/sys/class/infiniband")) {
        Adapter adapter;
        adapter.name = folder.filename().string();
        std::error_code missing;
        const std::string device = fs::canonical(folder / "device", missing).filename().string();
        if (fs::exists(root + "/sys/bus/pci/devices/" + device, missing))
            adapter.pci = pci_device(root, device);
        for (const Gpu& gpu : gpus)
            adapter.to_gpus.push_back(proximity(gpu.pci, adapter.pci));
        adapters.push_back(std::move(adapter));
    }
    return adapters;
}

// Built-in modules are in /sys alone, those of a container's view perhaps in /proc alone.
bool is_loaded(const std::string& root, const std::string& module) {
    if (fs::exists(root + "/sys/module/" + module)) return true;
    std::ifstream modules(root + "/proc/modules");
    for (std::string line; std::getline(modules, line);)
        if (line.rfind(module + ' ', 0) == 0) return true;
    return false;
}

std::string peer_memory_module(const std::string& root) {
    for (const char* module : {"nvidia_peermem", "nv_peer_mem"})
        if (is_loaded(root, module)) return module;
    return "";
}

std::optional<bool> has_open_modules(const std::string& root) {
    const std::string version = first_line(root + "/proc/driver/nvidia/version");
    if (version.empty()) return std::nullopt;
    return version.find("Open Kernel Module") != std::string::npos;
}

std::optional<bool> knows_dma_buf(const std::string& release) {
    int major = 0, minor = 0;
    char dot = 0;
    if (!(std::istringstream(release) >> major >> dot >> minor)) return std::nullopt;
    return major > 5 || (major == 5 && minor >= 12);
}

// Either says no alone; both are asked for a yes.
std::optional<bool> both(std::optional<bool> a, std::optional<bool> b) {
    if (a == false || b == false) return false;
    return a && b ? std::optional(true) : std::nullopt;
}

// Of GPUs and adapters, those that are known.
std::vector<PciDevice> devices_of(const Machine& machine) {
    std::vector<PciDevice> devices;
    for (const Gpu& gpu : machine.gpus)
        devices.push_back(gpu.pci);
    for (const Adapter& adapter : machine.adapters)
        devices.push_back(adapter.pci);
    std::erase_if(devices, [](const PciDevice& device) { return device.way.empty(); });
    return devices;
}

// A word of the kernel's command line.
bool was_started_with(const std::string& root, const std::string& word) {
    std::istringstream words(first_line(root + "/proc/cmdline"));
    for (std::string each; words >> each;)
        if (each == word) return true;
    return false;
}

// The type of the group that a device is in says it ("DMA", "DMA-FQ"; "identity" passes addresses
// on); kernels before 5.11 do not tell types, and pass all on where they were started so.
std::optional<bool> iommu_translates(const std::string& root,
                                     const std::vector<PciDevice>& devices) {
    if (!fs::exists(root + "/sys/class")) return std::nullopt;
    if (entries(root + "/sys/class/iommu").empty()) return false;
    bool typed = false;
    for (const PciDevice& device : devices) {
        const std::string group = root + "/sys/bus/pci/devices/" + device.address + "/iommu_group";
        const std::string type = first_line(group + "/type");
        if (type.rfind("DMA", 0) == 0) return true;
        typed = typed || !type.empty();
    }
    if (typed) return false;
    return !was_started_with(root, "iommu=pt") && !was_started_with(root, "iommu.passthrough=1");
}

// Below root ports: what goes up to one of these has left the switches anyway.
std::optional<std::vector<std::string>> redirecting_bridges(const std::string& root,
                                                            const std::vector<PciDevice>& devices) {
    constexpr std::size_t kBelowRootPort = 2;
    if (devices.empty()) return std::nullopt;
    std::set<std::string> bridges;
    for (const PciDevice& device : devices)
        for (std::size_t at = kBelowRootPort; at + 1 < device.way.size(); ++at)
            bridges.insert(device.way[at]);
    std::vector<std::string> redirecting;
    for (const std::string& bridge : bridges) {
        const auto redirects = redirects_requests(root, bridge);
        if (!redirects) return std::nullopt;
        if (*redirects) redirecting.push_back(bridge);
    }
    return redirecting;
}

}  // namespace

void inspect_gpu_direct(const std::string& root, Machine& machine) {
    for (Gpu& gpu : machine.gpus)
        gpu.pci = pci_device(root, gpu.pci.address);
    machine.adapters = read_adapters(root, machine.gpus);
    GpuDirect& direct = machine.gpu_direct;
    direct.kernel = first_line(root + "/proc/sys/kernel/osrelease");
    direct.peer_memory_module = peer_memory_module(root);
    direct.open_modules = has_open_modules(root);
    direct.dma_buf = both(knows_dma_buf(direct.kernel), direct.open_modules);
    const std::vector<PciDevice> devices = devices_of(machine);
    direct.iommu_translates = iommu_translates(root, devices);
    direct.redirecting = redirecting_bridges(root, devices);
}

}  // namespace orrery::runtime
