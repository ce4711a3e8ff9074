// The driver and the GPUs. Prototypes are those of cuda.h and nvml.h, written down here: those
// headers are not there where there is no CUDA, and doctor is for such machines too.
#include <utility>

#include <fmt/format.h>

#include "runtime/machine/ask.hpp"
#include "runtime/machine/inspect.hpp"
#include "runtime/machine/nvml.hpp"

namespace orrery::runtime {
namespace {

struct NvmlMemory {
    unsigned long long total, free, used;
};
struct NvmlPci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
constexpr int kPeerRead = 0;
constexpr int kPeerNvlink = 2;
constexpr int kPeerOk = 0;
constexpr unsigned kMostNvlinks = 18;

// What `name` of `library`, int(device, Value*, Value*), answers; nothing where it does not.
template <typename Value>
std::optional<std::pair<Value, Value>> ask_two(const LoadedLibrary& library, const char* name,
                                               NvmlDevice device) {
    std::pair<Value, Value> values{};
    auto* function = library.function<int(NvmlDevice, Value*, Value*)>(name);
    if (function == nullptr || function(device, &values.first, &values.second) != 0)
        return std::nullopt;
    return values;
}

std::string ask_text(const LoadedLibrary& library, const char* name, NvmlDevice device) {
    char text[96] = "";
    auto* function = library.function<int(NvmlDevice, char*, unsigned)>(name);
    if (function == nullptr || function(device, text, sizeof text) != 0) return "unknown";
    return text;
}

std::optional<int> whole(std::optional<unsigned> value) {
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// The present one of two values, the other of which comes with the next start.
std::optional<bool> mode(const std::optional<std::pair<int, int>>& values) {
    return values ? std::optional(values->first != 0) : std::nullopt;
}

std::optional<double> watts(std::optional<unsigned> milliwatts) {
    return milliwatts ? std::optional(*milliwatts / 1e3) : std::nullopt;
}

Gpu read_gpu(const LoadedLibrary& nvml, NvmlDevice device) {
    auto clock = [&](const char* name, int kind) {
        return whole(ask<unsigned>(nvml, name, device, kind));
    };
    Gpu gpu;
    gpu.name = ask_text(nvml, "nvmlDeviceGetName", device);
    if (const auto memory = ask<NvmlMemory>(nvml, "nvmlDeviceGetMemoryInfo", device))
        gpu.memory_bytes = static_cast<std::int64_t>(memory->total);
    if (const auto at = ask_two<int>(nvml, "nvmlDeviceGetCudaComputeCapability", device))
        gpu.compute_capability = 10 * at->first + at->second;
    gpu.clock_MHz = clock("nvmlDeviceGetClockInfo", kClockOfMultiprocessors);
    gpu.most_clock_MHz = clock("nvmlDeviceGetMaxClockInfo", kClockOfMultiprocessors);
    gpu.memory_clock_MHz = clock("nvmlDeviceGetClockInfo", kClockOfMemory);
    gpu.most_memory_clock_MHz = clock("nvmlDeviceGetMaxClockInfo", kClockOfMemory);
    gpu.power_limit_w = watts(ask<unsigned>(nvml, "nvmlDeviceGetPowerManagementLimit", device));
    gpu.default_power_limit_w =
        watts(ask<unsigned>(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", device));
    gpu.ecc = mode(ask_two<int>(nvml, "nvmlDeviceGetEccMode", device));
    gpu.partitioned = mode(ask_two<int>(nvml, "nvmlDeviceGetMigMode", device));
    if (const auto persists = ask<int>(nvml, "nvmlDeviceGetPersistenceMode", device))
        gpu.persistence = *persists != 0;
    if (const auto pci = ask<NvmlPci>(nvml, "nvmlDeviceGetPciInfo_v3", device))
        gpu.pci.address = pci_address(pci->bus_id);
    for (unsigned link = 0; link < kMostNvlinks; ++link)
        if (ask<int>(nvml, "nvmlDeviceGetNvLinkState", device, link).value_or(0) != 0)
            ++gpu.nvlinks;
    return gpu;
}

PeerAccess peer_access(const LoadedLibrary& nvml, NvmlDevice from, NvmlDevice to) {
    auto allows = [&](int what) {
        return ask<int>(nvml, "nvmlDeviceGetP2PStatus", from, to, what) == kPeerOk;
    };
    if (!allows(kPeerRead)) return PeerAccess::none;
    return allows(kPeerNvlink) ? PeerAccess::nvlink : PeerAccess::pcie;
}

void read_gpus(const LoadedLibrary& nvml, Machine& machine) {
    std::vector<NvmlDevice> devices;
    const unsigned count = ask<unsigned>(nvml, "nvmlDeviceGetCount_v2").value_or(0);
    for (unsigned index = 0; index < count; ++index)
        if (const auto device = ask<NvmlDevice>(nvml, "nvmlDeviceGetHandleByIndex_v2", index))
            devices.push_back(*device);
    for (std::size_t from = 0; from < devices.size(); ++from) {
        machine.gpus.push_back(read_gpu(nvml, devices[from]));
        std::vector<PeerAccess>& row = machine.peers.emplace_back();
        for (std::size_t to = 0; to < devices.size(); ++to)
            row.push_back(from == to ? PeerAccess::self
                                     : peer_access(nvml, devices[from], devices[to]));
    }
}

void ask_nvml(const LoadedLibrary& nvml, Machine& machine) {
    auto* init = nvml.function<int()>("nvmlInit_v2");
    const int code = init == nullptr ? -1 : init();
    if (code != 0) {
        auto* text_of = nvml.function<const char*(int)>("nvmlErrorString");
        machine.driver.problem =
            fmt::format("nvmlInit fails with {}{}{}", code, text_of == nullptr ? "" : ": ",
                        text_of == nullptr ? "" : text_of(code));
        return;
    }
    char version[96] = "";
    auto* get_version = nvml.function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    if (get_version != nullptr && get_version(version, sizeof version) == 0)
        machine.driver.version = version;
    read_gpus(nvml, machine);
    if (auto* shutdown = nvml.function<int()>("nvmlShutdown")) shutdown();
}

// cuda.h.
void ask_cuda(const LoadedLibrary& cuda, Driver& driver) {
    constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
    driver.cuda = ask<int>(cuda, "cuDriverGetVersion");
    auto* init = cuda.function<int(unsigned)>("cuInit");
    const int code = init == nullptr ? -1 : init(0);
    if (code == kNoDevice) {
        driver.visible = 0;
    } else if (code == 0) {
        driver.visible = ask<int>(cuda, "cuDeviceGetCount");
    } else {
        const auto text = ask<const char*>(cuda, "cuGetErrorString", code);
        driver.problem =
            fmt::format("cuInit fails with {}{}{}", code, text ? ": " : "", text.value_or(""));
    }
}

std::unique_ptr<LoadedLibrary> open(LibraryLoader& loader, const std::string& name,
                                    const std::string& used_for, const std::string& file,
                                    Library& library) {
    library.name = name;
    library.used_for = used_for;
    library.file = file;
    library.remedy =
        "apt-get install nvidia-driver (NVIDIA's package source has 580 and later); a container "
        "must be started with its GPUs (docker run --gpus all)";
    auto loaded = loader.open(file, library.problem);
    if (loaded) library.path = loaded->path();
    return loaded;
}

}  // namespace

void inspect_nvidia(LibraryLoader& loader, Machine& machine) {
    Driver& driver = machine.driver;
    if (const auto nvml = open(loader, "NVML", "clocks, power and links of GPUs, here only",
                               "libnvidia-ml.so.1", driver.management))
        ask_nvml(*nvml, machine);
    if (const auto cuda =
            open(loader, "driver", "everything on GPUs", "libcuda.so.1", driver.library))
        ask_cuda(*cuda, driver);
}

}  // namespace orrery::runtime
