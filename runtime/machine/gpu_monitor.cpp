// Prototypes are those of cuda.h and nvml.h, written down here, as in inspect_nvidia.cpp.
#include "runtime/machine/gpu_monitor.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include "runtime/machine/ask.hpp"
#include "runtime/machine/nvml.hpp"

namespace orrery::runtime {
namespace {

// cuda.h.
constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kL2Bytes = 38;          // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
constexpr int kMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinor = 76;            // …_MINOR

// Of functions int(Value*, arguments…), whose answer comes first.
template <typename Value, typename... Arguments>
std::optional<Value> ask_first(const LoadedLibrary& library, const char* name,
                               Arguments... arguments) {
    Value value{};
    auto* function = library.function<int(Value*, Arguments...)>(name);
    if (function == nullptr || function(&value, arguments...) != 0) return std::nullopt;
    return value;
}

std::optional<std::string> ask_text(const LoadedLibrary& cuda, const char* name, int device) {
    std::array<char, 256> text{};
    auto* function = cuda.function<int(char*, int, int)>(name);
    if (function == nullptr || function(text.data(), static_cast<int>(text.size()), device) != 0)
        return std::nullopt;
    return std::string(text.data());
}

constexpr int kTemperatureOfGpu = 0;

class NvmlMonitor final : public GpuMonitor {
  public:
    NvmlMonitor(std::unique_ptr<LoadedLibrary> nvml, NvmlDevice device)
        : nvml_(std::move(nvml)), device_(device) {}
    ~NvmlMonitor() override {
        if (auto* shutdown = nvml_->function<int()>("nvmlShutdown")) shutdown();
    }

    GpuReading read() override {
        GpuReading reading;
        reading.clock_MHz = whole("nvmlDeviceGetClockInfo", kClockOfMultiprocessors);
        reading.memory_clock_MHz = whole("nvmlDeviceGetClockInfo", kClockOfMemory);
        reading.power_w = watts("nvmlDeviceGetPowerUsage");
        reading.temperature_c = whole("nvmlDeviceGetTemperature", kTemperatureOfGpu);
        return reading;
    }

    std::optional<double> power_limit_w() override {
        return watts("nvmlDeviceGetPowerManagementLimit");
    }

  private:
    std::optional<int> whole(const char* name, int kind) const {
        const auto value = ask<unsigned>(*nvml_, name, device_, kind);
        return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
    }
    std::optional<double> watts(const char* name) const {
        const auto milliwatts = ask<unsigned>(*nvml_, name, device_);
        return milliwatts ? std::optional(*milliwatts / 1e3) : std::nullopt;
    }

    std::unique_ptr<LoadedLibrary> nvml_;
    NvmlDevice device_;
};

}  // namespace

std::optional<GpuFacts> visible_gpu(LibraryLoader& loader, int number) {
    std::string problem;
    const auto cuda = loader.open("libcuda.so.1", problem);
    if (!cuda) return std::nullopt;
    auto* init = cuda->function<int(unsigned)>("cuInit");
    if (init == nullptr || init(0) != 0) return std::nullopt;
    const auto device = ask_first<int>(*cuda, "cuDeviceGet", number);
    if (!device) return std::nullopt;
    const auto name = ask_text(*cuda, "cuDeviceGetName", *device);
    const auto bus_id = ask_text(*cuda, "cuDeviceGetPCIBusId", *device);
    const auto memory = ask_first<std::size_t>(*cuda, "cuDeviceTotalMem_v2", *device);
    const auto attribute = [&](int which) {
        return ask_first<int>(*cuda, "cuDeviceGetAttribute", which, *device);
    };
    const auto cache = attribute(kL2Bytes), processors = attribute(kMultiprocessors);
    const auto major = attribute(kMajor), minor = attribute(kMinor);
    if (!name || !bus_id || !memory || !cache || !processors || !major || !minor)
        return std::nullopt;
    return GpuFacts{*name,  *bus_id,     static_cast<std::int64_t>(*memory),
                    *cache, *processors, 10 * *major + *minor};
}

std::unique_ptr<GpuMonitor> watch_gpu(LibraryLoader& loader, const std::string& bus_id) {
    std::string problem;
    auto nvml = loader.open("libnvidia-ml.so.1", problem);
    if (!nvml) return nullptr;
    auto* init = nvml->function<int()>("nvmlInit_v2");
    if (init == nullptr || init() != 0) return nullptr;
    const auto device = ask<NvmlDevice>(*nvml, "nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str());
    if (device) return std::make_unique<NvmlMonitor>(std::move(nvml), *device);
    if (auto* shutdown = nvml->function<int()>("nvmlShutdown")) shutdown();
    return nullptr;
}

}  // namespace orrery::runtime
