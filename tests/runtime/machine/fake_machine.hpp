// Machines that a test makes up: libraries by name with the functions that they have, and a folder
// that stands for /proc and /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/machine/inspect.hpp"
#include "tests/runtime/topology/fake_topology.hpp"

namespace orrery::runtime {

using Symbols = std::map<std::string, void*>;

// `function` as a symbol of `symbols`; a lambda with + before it.
template <typename Result, typename... Arguments>
void provide(Symbols& symbols, const std::string& name, Result (*function)(Arguments...)) {
    symbols[name] = reinterpret_cast<void*>(function);
}

class FakeLoader : public LibraryLoader {
  public:
    std::map<std::string, Symbols> libraries;
    std::map<std::string, std::string> problems;  // of libraries that are there but do not load

    std::unique_ptr<LoadedLibrary> open(const std::string& file, std::string& problem) override {
        if (problems.count(file) > 0) problem = problems[file];
        if (libraries.count(file) == 0) return nullptr;
        return std::make_unique<FakeLibrary>("/fake/" + file, libraries[file]);
    }

  private:
    class FakeLibrary : public LoadedLibrary {
      public:
        FakeLibrary(std::string path, Symbols symbols)
            : path_(std::move(path)), symbols_(std::move(symbols)) {}
        std::string path() const override { return path_; }
        void* symbol(const char* name) const override {
            const auto found = symbols_.find(name);
            return found == symbols_.end() ? nullptr : found->second;
        }

      private:
        std::string path_;
        Symbols symbols_;
    };
};

// What the fake NVML and CUDA say: plain functions have no other place to look.
struct FakeGpus {
    int count = 2;
    int cuda = 13000;
    int visible = 2;
    int init = 0;  // what cuInit returns
    bool nvlink = true;
    bool persistence = true;
    std::vector<std::string> bus_ids;  // by GPU, as NVML spells them; none: it does not say
};
inline FakeGpus fake_gpus;

using FakeDevice = void*;  // its index + 1

inline int put_text(const std::string& from, char* to, unsigned length) {
    from.copy(to, length - 1);  // into zeros
    return 0;
}

// libnvidia-ml.so.1 of H100s: what it says of the machine.
inline Symbols fake_nvml_of_machine() {
    Symbols nvml;
    provide(
        nvml, "nvmlInit_v2", +[]() { return 0; });
    provide(
        nvml, "nvmlShutdown", +[]() { return 0; });
    provide(
        nvml, "nvmlSystemGetDriverVersion",
        +[](char* to, unsigned length) { return put_text("580.65.06", to, length); });
    provide(
        nvml, "nvmlDeviceGetCount_v2", +[](unsigned* count) {
            *count = static_cast<unsigned>(fake_gpus.count);
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetHandleByIndex_v2", +[](unsigned index, FakeDevice* device) {
            *device = reinterpret_cast<FakeDevice>(static_cast<std::uintptr_t>(index) + 1);
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetName", +[](FakeDevice, char* to, unsigned length) {
            return put_text("NVIDIA H100 80GB HBM3", to, length);
        });
    return nvml;
}

// The whole of it, with what it says of each GPU.
inline Symbols fake_nvml() {
    Symbols nvml = fake_nvml_of_machine();
    provide(
        nvml, "nvmlDeviceGetMemoryInfo", +[](FakeDevice, unsigned long long* three) {
            three[0] = 85'000'000'000ULL;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetCudaComputeCapability", +[](FakeDevice, int* major, int* minor) {
            *major = 9;
            *minor = 0;
            return 0;
        });
    // Multiprocessors (1) at 345 of 1980 MHz, memory (2) at 2619.
    provide(
        nvml, "nvmlDeviceGetClockInfo", +[](FakeDevice, int kind, unsigned* clock) {
            *clock = kind == 1 ? 345 : 2619;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetMaxClockInfo", +[](FakeDevice, int kind, unsigned* clock) {
            *clock = kind == 1 ? 1980 : 2619;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetPowerManagementLimit", +[](FakeDevice device, unsigned* milliwatts) {
            *milliwatts = device == reinterpret_cast<FakeDevice>(2) ? 500'000 : 700'000;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetPowerManagementDefaultLimit", +[](FakeDevice, unsigned* milliwatts) {
            *milliwatts = 700'000;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetEccMode", +[](FakeDevice, int* now, int* pending) {
            *now = 1;
            *pending = 0;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetMigMode", +[](FakeDevice, int*, int*) { return 3; });  // not supported
    provide(
        nvml, "nvmlDeviceGetPersistenceMode", +[](FakeDevice, int* on) {
            *on = fake_gpus.persistence ? 1 : 0;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetNvLinkState", +[](FakeDevice, unsigned link, int* active) {
            if (!fake_gpus.nvlink) return 3;
            *active = link < 12 ? 1 : 0;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetPciInfo_v3", +[](FakeDevice device, char* info) {
            constexpr std::size_t kBusId = 36;  // behind 16 characters and five numbers
            const auto index = reinterpret_cast<std::uintptr_t>(device) - 1;
            if (index >= fake_gpus.bus_ids.size()) return 3;
            return put_text(fake_gpus.bus_ids[index], info + kBusId, 32);
        });
    // Reads (0) work between all; over NVLink (2) where there is one; 5 is "not supported".
    provide(
        nvml, "nvmlDeviceGetP2PStatus", +[](FakeDevice, FakeDevice, int what, int* status) {
            *status = what == 0 || (what == 2 && fake_gpus.nvlink) ? 0 : 5;
            return 0;
        });
    return nvml;
}

// libcuda.so.1.
inline Symbols fake_cuda() {
    Symbols cuda;
    provide(
        cuda, "cuDriverGetVersion", +[](int* version) {
            *version = fake_gpus.cuda;
            return 0;
        });
    provide(
        cuda, "cuInit", +[](unsigned) { return fake_gpus.init; });
    provide(
        cuda, "cuDeviceGetCount", +[](int* count) {
            *count = fake_gpus.visible;
            return 0;
        });
    provide(
        cuda, "cuGetErrorString", +[](int, const char** text) {
            *text = "system driver mismatch";
            return 0;
        });
    return cuda;
}

// cuBLASLt, NCCL and MPI; cuDNN is not there.
inline void add_fake_libraries(FakeLoader& loader) {
    provide(
        loader.libraries["libcublasLt.so.13"], "cublasLtGetVersion",
        +[]() { return std::size_t{130100}; });
    provide(
        loader.libraries["libnccl.so.2"], "ncclGetVersion", +[](int* version) {
            *version = 22805;
            return 0;
        });
    provide(
        loader.libraries["libmpi.so.40"], "MPI_Get_library_version", +[](char* text, int* length) {
            const std::string says = "Open MPI v4.1.4, package: made up";
            *length = static_cast<int>(says.copy(text, 255));
            return 0;
        });
}

inline FakeLoader two_gpus() {
    fake_gpus = {};
    FakeLoader loader;
    loader.libraries["libnvidia-ml.so.1"] = fake_nvml();
    loader.libraries["libcuda.so.1"] = fake_cuda();
    add_fake_libraries(loader);
    return loader;
}

// The eight GPUs of fake_dgx.
inline FakeLoader dgx_gpus() {
    FakeLoader loader = two_gpus();
    fake_gpus.count = fake_gpus.visible = 8;
    fake_gpus.bus_ids = {"00000000:1B:00.0", "00000000:43:00.0", "00000000:52:00.0",
                         "00000000:61:00.0", "00000000:9D:00.0", "00000000:C3:00.0",
                         "00000000:D1:00.0", "00000000:DF:00.0"};
    return loader;
}

// 8 cores in two sockets of which the control group allows 2.5, InfiniBand, RoCE and Ethernet.
inline std::string fake_host() {
    std::string processors;
    for (int core = 0; core < 8; ++core)
        processors += "processor\t: " + std::to_string(core) +
                      "\nvendor_id\t: Made\nmodel name\t: Test Processor 9000\nphysical id\t: " +
                      std::to_string(core / 4) + "\n\n";
    const std::string net = "/sys/class/net/";
    const std::string infiniband = "/sys/class/infiniband/";
    return fake_root(
        "host",
        {{"/proc/cpuinfo", processors},
         {"/proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n"},
         {"/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units\n"
          "Max locked memory         8388608              unlimited            bytes\n"
          "Max open files            unlimited            unlimited            files\n"},
         {"/sys/fs/cgroup/cpu.max", "250000 100000\n"},
         {"/sys/fs/cgroup/memory.max", "4294967296\n"},
         {net + "eth1/device/vendor", ""},
         {net + "eth1/operstate", "up\n"},
         {net + "eth1/speed", "25000\n"},
         {net + "eth0/device/vendor", ""},
         {net + "eth0/operstate", "down\n"},
         {net + "eth0/speed", "-1\n"},
         {net + "lo/operstate", "unknown\n"},
         {infiniband + "mlx5_0/ports/1/link_layer", "InfiniBand\n"},
         {infiniband + "mlx5_0/ports/1/state", "4: ACTIVE\n"},
         {infiniband + "mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"},
         {infiniband + "mlx5_1/ports/1/link_layer", "Ethernet\n"},
         {infiniband + "mlx5_1/ports/1/state", "1: DOWN\n"},
         {infiniband + "mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)\n"}});
}

}  // namespace orrery::runtime
