// From a rank to the cores near its GPU, on a machine that is made up.
#include "runtime/backends/rank_devices.hpp"

#include <gmock/gmock.h>

#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// A DGX of whose GPUs a process sees those that NVML numbers 6, 1 and 4, in this order
// (CUDA_VISIBLE_DEVICES=6,1,4).
FakeLoader three_of_dgx() {
    FakeLoader loader = dgx_gpus();
    fake_gpus.visible = 3;
    fake_gpus.bus_ids = {"0000:D1:00.0", "0000:43:00.0", "0000:9D:00.0"};
    Symbols& cuda = loader.libraries["libcuda.so.1"];
    provide(
        cuda, "cuDeviceGet", +[](int* device, int number) {
            *device = number;
            return number < fake_gpus.visible ? 0 : 101;
        });
    provide(
        cuda, "cuDeviceGetName",
        +[](char* to, int length, int) { return put_text("H100", to, unsigned(length)); });
    provide(
        cuda, "cuDeviceGetPCIBusId", +[](char* to, int length, int device) {
            return put_text(fake_gpus.bus_ids[std::size_t(device)], to, unsigned(length));
        });
    provide(
        cuda, "cuDeviceTotalMem_v2", +[](std::size_t* bytes, int) {
            *bytes = std::size_t{80} << 30;
            return 0;
        });
    provide(
        cuda, "cuDeviceGetAttribute", +[](int* value, int, int) {
            *value = 132;
            return 0;
        });
    return loader;
}

std::vector<std::string> described(const std::vector<RankDevice>& devices) {
    std::vector<std::string> texts;
    for (const RankDevice& device : devices)
        texts.push_back(fmt::format("{} {} {}", device.local_rank, device.pci.address,
                                    device.pci.numa_node.value_or(-1)));
    return texts;
}

using Texts = std::vector<std::string>;

TEST(RankDevices, AreTheGpusThatTheDriverNumbers) {
    const std::string root = fake_dgx("rank-devices");
    FakeLoader loader = three_of_dgx();
    const RanksOfMachine three{.ranks = 3, .launched = true, .local_rank = 2, .devices = 3};
    const auto devices = rank_devices(loader, three, root);
    EXPECT_EQ(described(devices),
              (Texts{"0 0000:d1:00.0 1", "1 0000:43:00.0 0", "2 0000:9d:00.0 1"}));
    const Processors dgx{numa_nodes(root), cpus_of_cpuset(root), cpus_of_cpuset(root)};
    EXPECT_EQ(binding_text(bind_to_gpus(plan::BindTo::automatic, dgx, devices)),
              "rank 0 to NUMA node 1 (cores 56-111,168-223); rank 1 to NUMA node 0 (cores "
              "0-55,112-167); rank 2 to NUMA node 1 (cores 56-111,168-223)");
    // Two ranks share each.
    const RanksOfMachine shared{.ranks = 6, .launched = true, .devices = 3, .ranks_per_device = 2};
    const Texts six = described(rank_devices(loader, shared, root));
    ASSERT_EQ(six.size(), 6U);
    EXPECT_EQ(six[3], "3 0000:43:00.0 0");
}

// srun --gpus-per-task=1: number 0 is another GPU in each process.
TEST(RankDevices, AreOfThisProcessAloneWhereItSeesOne) {
    const std::string root = fake_dgx("rank-device");
    FakeLoader loader = three_of_dgx();
    fake_gpus.visible = 1;
    RanksOfMachine machine{.ranks = 8, .launched = true, .local_rank = 5, .devices = 1};
    EXPECT_EQ(described(rank_devices(loader, machine, root)), (Texts{"5 0000:d1:00.0 1"}));
    // Ranks that nobody launched are threads here: one has a device, the others will be refused.
    machine.launched = false;
    EXPECT_EQ(described(rank_devices(loader, machine, root)), (Texts{"0 0000:d1:00.0 1"}));
}

TEST(RankDevices, HaveNoPlaceWhereTheDriverIsSilent) {
    FakeLoader nothing;
    const RanksOfMachine one{.ranks = 1, .devices = 1};
    EXPECT_EQ(described(rank_devices(nothing, one)), (Texts{"0  -1"}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
