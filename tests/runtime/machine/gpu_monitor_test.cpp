#include "runtime/machine/gpu_monitor.hpp"

#include <map>

#include <gtest/gtest.h>

#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr const char* kBusId = "00000000:1B:00.0";

FakeLoader busy_gpu() {
    FakeLoader loader = two_gpus();
    Symbols& nvml = loader.libraries["libnvidia-ml.so.1"];
    provide(
        nvml, "nvmlDeviceGetHandleByPciBusId_v2", +[](const char* id, FakeDevice* device) {
            if (std::string(id) != kBusId) return 6;  // not found
            *device = reinterpret_cast<FakeDevice>(2);
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetPowerUsage", +[](FakeDevice, unsigned* milliwatts) {
            *milliwatts = 412'500;
            return 0;
        });
    provide(
        nvml, "nvmlDeviceGetTemperature", +[](FakeDevice, int sensor, unsigned* degrees) {
            *degrees = 61;
            return sensor;  // 0: of the GPU
        });
    Symbols& cuda = loader.libraries["libcuda.so.1"];
    provide(
        cuda, "cuDeviceGet", +[](int* device, int number) {
            *device = number + 10;
            return number < fake_gpus.visible ? 0 : 101;
        });
    provide(
        cuda, "cuDeviceGetName", +[](char* to, int length, int device) {
            const std::string name = "GPU " + std::to_string(device);
            return put_text(name, to, static_cast<unsigned>(length));
        });
    provide(
        cuda, "cuDeviceGetPCIBusId", +[](char* to, int length, int) {
            return put_text(kBusId, to, static_cast<unsigned>(length));
        });
    provide(
        cuda, "cuDeviceTotalMem_v2", +[](std::size_t* bytes, int) {
            *bytes = std::size_t{80} << 30;
            return 0;
        });
    // Multiprocessors (16), bytes of L2 (38).
    provide(
        cuda, "cuDeviceGetAttribute", +[](int* value, int attribute, int) {
            const std::map<int, int> attributes{{16, 132}, {38, 50 << 20}, {75, 8}, {76, 9}};
            const auto found = attributes.find(attribute);
            if (found == attributes.end()) return 1;
            *value = found->second;
            return 0;
        });
    return loader;
}

TEST(GpuMonitor, TellsHowTheGpuDoes) {
    FakeLoader loader = busy_gpu();
    const auto monitor = watch_gpu(loader, kBusId);
    ASSERT_NE(monitor, nullptr);
    const GpuReading reading = monitor->read();
    EXPECT_EQ(reading.clock_MHz, 345);
    EXPECT_EQ(reading.memory_clock_MHz, 2619);
    EXPECT_EQ(reading.power_w, 412.5);
    EXPECT_EQ(reading.temperature_c, 61);
    EXPECT_EQ(monitor->power_limit_w(), 500);  // of the second one
}

TEST(GpuMonitor, LeavesOutWhatNvmlDoesNotTell) {
    FakeLoader loader = busy_gpu();
    loader.libraries["libnvidia-ml.so.1"].erase("nvmlDeviceGetPowerUsage");
    const auto monitor = watch_gpu(loader, kBusId);
    ASSERT_NE(monitor, nullptr);
    EXPECT_EQ(monitor->read().power_w, std::nullopt);
    EXPECT_EQ(monitor->read().clock_MHz, 345);
}

TEST(GpuMonitor, IsNoneWithoutNvmlOrTheGpu) {
    FakeLoader loader = busy_gpu();
    EXPECT_EQ(watch_gpu(loader, "00000000:FF:00.0"), nullptr);
    loader.libraries.erase("libnvidia-ml.so.1");
    EXPECT_EQ(watch_gpu(loader, kBusId), nullptr);
}

TEST(VisibleGpu, IsWhatTheDriverTells) {
    FakeLoader loader = busy_gpu();
    const auto gpu = visible_gpu(loader, 1);
    ASSERT_TRUE(gpu.has_value());
    EXPECT_EQ(gpu->name, "GPU 11");
    EXPECT_EQ(gpu->bus_id, kBusId);
    EXPECT_EQ(gpu->memory_bytes, std::int64_t{80} << 30);
    EXPECT_EQ(gpu->cache_bytes, 50 << 20);
    EXPECT_EQ(gpu->multiprocessors, 132);
    EXPECT_EQ(gpu->compute_capability, 89);
    EXPECT_TRUE(gpu->multiplies_eight_bits());
    EXPECT_FALSE(gpu->multiplies_scaled_rows());
}

TEST(VisibleGpu, IsNoneWithoutADriverOrThatGpu) {
    FakeLoader loader = busy_gpu();
    EXPECT_FALSE(visible_gpu(loader, 2).has_value());
    fake_gpus.init = 100;  // CUDA_ERROR_NO_DEVICE
    EXPECT_FALSE(visible_gpu(loader, 0).has_value());
    fake_gpus.init = 0;
    loader.libraries.erase("libcuda.so.1");
    EXPECT_FALSE(visible_gpu(loader, 0).has_value());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
