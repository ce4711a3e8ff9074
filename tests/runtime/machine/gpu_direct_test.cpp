// What lets adapters reach GPUs' memory, of machines that are made up.
#include <gmock/gmock.h>

#include "runtime/machine/requirements.hpp"
#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOpen =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n";
constexpr const char* kProprietary =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 2024\n";

Machine inspected(const std::string& root) {
    FakeLoader loader = dgx_gpus();
    return inspect_machine(loader, root, {});
}

// A DGX whose network works, with nothing in the way.
std::string sound_dgx(const std::string& name) {
    const std::string root = fake_dgx(name);
    write_into(root, {{"/sys/module/nvidia_peermem/initstate", "live\n"},
                      {"/proc/sys/kernel/osrelease", "5.15.0-1047-nvidia\n"},
                      {"/proc/driver/nvidia/version", kProprietary},
                      {"/proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n"}});
    return root;
}

// Of what is found about GPUDirect alone.
std::vector<Finding> advice_of(const Machine& machine) {
    std::vector<Finding> advice = advice_for(machine);
    std::erase_if(advice, [](const Finding& finding) {
        for (const char* of : {"GPUDirect", "IOMMU", "ACS"})
            if (finding.what.find(of) != std::string::npos) return false;
        return true;
    });
    return advice;
}

TEST(GpuDirect, AdaptersOfADgxAreNearTheirGpus) {
    const Machine machine = inspected(sound_dgx("dgx"));
    ASSERT_EQ(machine.gpus.size(), 8U);
    ASSERT_EQ(machine.adapters.size(), 8U);
    for (std::size_t gpu = 0; gpu < 8; ++gpu) {
        EXPECT_EQ(machine.gpus[gpu].pci.numa_node, gpu < 4 ? 0 : 1);
        EXPECT_EQ(cpu_list_text(machine.cpus_of(machine.gpus[gpu])),
                  gpu < 4 ? "0-55,112-167" : "56-111,168-223");
        for (std::size_t adapter = 0; adapter < 8; ++adapter) {
            const Proximity elsewhere = gpu / 4 == adapter / 4 ? Proximity::node : Proximity::sys;
            EXPECT_EQ(machine.adapters[adapter].to_gpus[gpu],
                      gpu == adapter ? Proximity::pix : elsewhere);
        }
    }
    EXPECT_EQ(has_gpu_direct(machine), true);
    EXPECT_EQ(machine.gpu_direct.peer_memory_module, "nvidia_peermem");
    EXPECT_EQ(machine.gpu_direct.iommu_translates, false);
    EXPECT_THAT(advice_of(machine), IsEmpty());
}

TEST(GpuDirect, ComesOfTheOlderModuleOrOfDmaBuf) {
    const std::string root = sound_dgx("dgx-ways");
    std::filesystem::remove_all(root + "/sys/module/nvidia_peermem");
    EXPECT_EQ(has_gpu_direct(inspected(root)), false) << "proprietary modules have no dma-buf";
    write_into(root,
               {{"/proc/modules", "nv_peer_memory 1 0 - Live 0\nnv_peer_mem 16384 0 - Live"}});
    EXPECT_EQ(inspected(root).gpu_direct.peer_memory_module, "nv_peer_mem");
    EXPECT_EQ(has_gpu_direct(inspected(root)), true);
    write_into(root, {{"/proc/modules", ""}, {"/proc/driver/nvidia/version", kOpen}});
    const Machine machine = inspected(root);
    EXPECT_EQ(machine.gpu_direct.open_modules, true);
    EXPECT_EQ(machine.gpu_direct.dma_buf, true);
    EXPECT_EQ(has_gpu_direct(machine), true);
    for (const auto& [release, knows] : {std::pair{"5.11.22\n", false},
                                         {"5.12.0-rc1\n", true},
                                         {"4.18.0-553.el8\n", false},
                                         {"6.8.0-45-generic\n", true}}) {
        write_into(root, {{"/proc/sys/kernel/osrelease", release}});
        EXPECT_EQ(has_gpu_direct(inspected(root)), knows) << release;
    }
    write_into(root, {{"/proc/driver/nvidia/version", ""}});
    EXPECT_EQ(has_gpu_direct(inspected(root)), std::nullopt) << "nobody says which modules";
}

TEST(GpuDirect, IsMissedWithTheReason) {
    const std::string root = sound_dgx("dgx-without");
    std::filesystem::remove_all(root + "/sys/module/nvidia_peermem");
    auto advice = advice_of(inspected(root));
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_EQ(advice[0].what,
              "adapters cannot read GPUs' memory (GPUDirect RDMA): nvidia_peermem is not loaded, "
              "and dma-buf needs the driver's open kernel modules: messages between nodes pass "
              "through the host's memory");
    EXPECT_THAT(advice[0].remedy, HasSubstr("modprobe nvidia_peermem"));
    write_into(root, {{"/proc/driver/nvidia/version", kOpen},
                      {"/proc/sys/kernel/osrelease", "5.4.0-200-generic\n"}});
    advice = advice_of(inspected(root));
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_THAT(advice[0].what, HasSubstr("dma-buf needs a kernel of 5.12 or later, and this is "
                                          "5.4.0-200-generic"));
    // Without an adapter there is nothing to miss.
    std::filesystem::remove_all(root + "/sys/class/infiniband");
    EXPECT_EQ(has_gpu_direct(inspected(root)), false);
    EXPECT_THAT(advice_of(inspected(root)), IsEmpty());
}

TEST(GpuDirect, AnIommuThatTranslatesIsInTheWay) {
    const std::string root = sound_dgx("dgx-iommu");
    write_into(root, {{"/sys/class/iommu/dmar0/type", ""}});
    EXPECT_EQ(inspected(root).gpu_direct.iommu_translates, true);
    const auto advice = advice_of(inspected(root));
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_THAT(advice[0].what, HasSubstr("the IOMMU translates"));
    EXPECT_THAT(advice[0].remedy, HasSubstr("iommu=pt"));
    write_into(root, {{"/proc/cmdline", "quiet intel_iommu=on iommu=pt\n"}});
    EXPECT_EQ(inspected(root).gpu_direct.iommu_translates, false);
    // What the group of a device says, counts more; disks' groups say nothing of GPUs.
    write_into(root, {{"/sys/kernel/iommu_groups/7/type", "DMA-FQ\n"},
                      {"/sys/kernel/iommu_groups/8/type", "identity\n"}});
    const std::string groups = root + "/sys/kernel/iommu_groups/";
    const std::string gpu = root + "/sys/bus/pci/devices/0000:1b:00.0/iommu_group";
    std::filesystem::create_directory_symlink(groups + "8", gpu);
    write_into(root, {{"/proc/cmdline", "quiet\n"}});
    EXPECT_EQ(inspected(root).gpu_direct.iommu_translates, false);
    std::filesystem::remove(gpu);
    std::filesystem::create_directory_symlink(groups + "7", gpu);
    EXPECT_EQ(inspected(root).gpu_direct.iommu_translates, true);
}

TEST(GpuDirect, AccessControlThatRedirectsIsNamed) {
    const std::string root = sound_dgx("dgx-acs");
    EXPECT_EQ(inspected(root).gpu_direct.redirecting, std::nullopt) << "no bridge may be read";
    const std::string silent(4096, '\0');
    std::string redirecting = silent;
    redirecting[0x100] = 0x0d, redirecting[0x106] = 0x1d;
    const std::string list = root + "/sys/bus/pci/devices/";
    for (const auto& bridge : std::filesystem::directory_iterator(list))
        std::ofstream(bridge.path() / "config", std::ios::binary) << silent;
    EXPECT_THAT(*inspected(root).gpu_direct.redirecting, IsEmpty());
    // A root port's is no matter: nothing that stays below a switch comes there.
    for (const char* bridge : {"0000:15:01.0", "0000:99:00.0", "0000:17:01.0"})
        std::ofstream(list + bridge + "/config", std::ios::binary) << redirecting;
    const Machine machine = inspected(root);
    EXPECT_THAT(*machine.gpu_direct.redirecting, ElementsAre("0000:17:01.0", "0000:99:00.0"));
    const auto advice = advice_of(machine);
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_THAT(advice[0].what, HasSubstr("redirects requests at 0000:17:01.0, 0000:99:00.0:"));
    EXPECT_THAT(advice[0].remedy, HasSubstr("setpci"));
}

// All hang on one host bridge, and nobody says of which node.
TEST(GpuDirect, AVirtualMachineHidesWhatIsNear) {
    const std::string root = empty_root("vm");
    write_into(root, {{"/proc/sys/kernel/osrelease", "6.8.0-1015-azure\n"},
                      {"/proc/driver/nvidia/version", kOpen}});
    add_numa_nodes(root, {"0-47", "48-95"});
    add_pci(root, "pci0000:00/0000:00:05.0", -1);
    add_pci(root, "pci0000:00/0000:00:06.0", -1);
    add_pci(root, "pci0000:00/0000:00:07.0", -1);
    add_adapter(root, "mlx5_0", "pci0000:00/0000:00:07.0");
    FakeLoader loader = two_gpus();
    fake_gpus.bus_ids = {"00000000:00:05.0", "00000000:00:06.0"};
    const Machine machine = inspect_machine(loader, root, {});
    EXPECT_EQ(machine.gpus[1].pci.numa_node, std::nullopt);
    EXPECT_THAT(machine.cpus_of(machine.gpus[1]), IsEmpty());
    EXPECT_THAT(machine.adapters.at(0).to_gpus, ElementsAre(Proximity::phb, Proximity::phb));
    const auto advice = advice_of(machine);
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_THAT(advice[0].what, HasSubstr("no adapter is below the same PCIe switch as GPU 0 "
                                          "(mlx5_0: PHB), GPU 1 (mlx5_0: PHB): by default NCCL"));
    EXPECT_THAT(advice[0].remedy, HasSubstr("NCCL_TOPO_FILE"));
    EXPECT_THAT(advice_of(inspect_machine(loader, root, {"NCCL_TOPO_FILE=/opt/ndv5.xml"})),
                IsEmpty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
