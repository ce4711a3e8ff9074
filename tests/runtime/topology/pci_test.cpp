#include "runtime/topology/pci.hpp"

#include <gmock/gmock.h>

#include "tests/runtime/topology/fake_topology.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Pci, AddressesAreSpelledAsTheKernelDoes) {
    EXPECT_EQ(pci_address("00000000:1B:00.0"), "0000:1b:00.0");  // NVML
    EXPECT_EQ(pci_address("0000:DF:00.0"), "0000:df:00.0");      // CUDA
    EXPECT_EQ(pci_address("00010000:01:00.0"), "10000:01:00.0");
    EXPECT_EQ(pci_address(""), "");
}

TEST(Pci, DevicesHangWhereTheTreeHasThem) {
    const std::string root = fake_dgx("pci-device");
    const PciDevice gpu = pci_device(root, "0000:9d:00.0");
    EXPECT_THAT(gpu.way, ElementsAre("pci0000:97", "0000:97:01.0", "0000:98:00.0", "0000:99:01.0",
                                     "0000:9d:00.0"));
    EXPECT_EQ(gpu.numa_node, 1);
    for (const char* address : {"0000:aa:00.0", ""}) {
        const PciDevice none = pci_device(root, address);
        EXPECT_EQ(none.address, address);
        EXPECT_THAT(none.way, IsEmpty());
        EXPECT_EQ(none.numa_node, std::nullopt);
    }
    add_pci(root, "pci0000:00/0000:00:05.0", -1);  // as in a virtual machine
    EXPECT_EQ(pci_device(root, "0000:00:05.0").numa_node, std::nullopt);
    // Azure's hang below its bus of virtual devices.
    add_pci(root, "LNXSYSTM:00/VMBUS:01/e47b/pcie47b:00/e47b:00:00.0", 0);
    EXPECT_THAT(pci_device(root, "e47b:00:00.0").way, ElementsAre("pcie47b:00", "e47b:00:00.0"));
}

PciDevice device(std::vector<std::string> way, std::optional<int> node) {
    PciDevice result;
    result.address = way.empty() ? "" : way.back();
    result.way = std::move(way);
    result.numa_node = node;
    return result;
}

TEST(Proximity, IsThatOfNvidiaSmi) {
    // Below root port R of host bridge H a switch: upper port U, lower ports D and E; below E
    // another switch, V with F and G.
    const PciDevice a = device({"H", "R", "U", "D", "a"}, 0);
    const PciDevice b = device({"H", "R", "U", "E", "b"}, 0);
    const PciDevice c = device({"H", "R", "U", "E", "V", "F", "c"}, 0);
    const PciDevice d = device({"H", "R", "U", "E", "V", "G", "d"}, 0);
    const PciDevice other_port = device({"H", "S", "e"}, 0);
    const PciDevice other_bridge = device({"I", "R", "f"}, 0);
    const PciDevice other_socket = device({"J", "R", "g"}, 1);
    EXPECT_EQ(proximity(a, b), Proximity::pix);
    EXPECT_EQ(proximity(c, d), Proximity::pix);
    EXPECT_EQ(proximity(a, c), Proximity::pxb);
    EXPECT_EQ(proximity(c, a), Proximity::pxb);
    EXPECT_EQ(proximity(a, other_port), Proximity::phb);
    EXPECT_EQ(proximity(a, other_bridge), Proximity::node);
    EXPECT_EQ(proximity(a, other_socket), Proximity::sys);
    EXPECT_EQ(proximity(a, device({"K", "h"}, std::nullopt)), std::nullopt);
    EXPECT_EQ(proximity(a, device({}, 0)), std::nullopt);
    EXPECT_STREQ(name(Proximity::pix), "PIX");
    EXPECT_STREQ(name(Proximity::sys), "SYS");
}

// A configuration space whose list of extended capabilities is: one of another kind at 0x100, and
// access control (13) at 0x148 with this control register.
std::string configuration(int control) {
    std::string bytes(4096, '\0');
    const auto put = [&](std::size_t at, std::uint32_t value) {
        for (std::size_t i = 0; i < 4; ++i)
            bytes[at + i] = static_cast<char>(value >> 8 * i & 0xff);
    };
    put(0x100, 0x148u << 20 | 1u << 16 | 0x0001);
    put(0x148, 0u << 20 | 1u << 16 | 0x000d);
    put(0x148 + 4, static_cast<std::uint32_t>(control) << 16 | 0x5f);
    return bytes;
}

TEST(AccessControl, IsReadFromConfigurationSpace) {
    const std::string root = empty_root("access-control");
    const std::string way = "pci0000:00/0000:00:01.0";
    add_pci(root, way, 0);
    const auto with = [&](const std::string& bytes) {
        write_into(root, {{"/sys/devices/" + way + "/config", bytes}});
        return redirects_requests(root, "0000:00:01.0");
    };
    EXPECT_EQ(redirects_requests(root, "0000:00:01.0"), std::nullopt) << "no file";
    EXPECT_EQ(with(configuration(0)), false);
    EXPECT_EQ(with(configuration(0x1d)), true);   // as firmware sets it: redirect is bit 2
    EXPECT_EQ(with(configuration(0x19)), false);  // all of that but bit 2
    EXPECT_EQ(with(std::string(4096, '\0')), false) << "no extended capability";
    EXPECT_EQ(with(configuration(0x1d).substr(0, 64)), std::nullopt)
        << "as others than root see it";
    std::string circle = configuration(0);
    circle[0x148] = 2;                                   // of another kind, whose next
    circle[0x148 + 2] = 0x01, circle[0x148 + 3] = 0x10;  // is at 0x100
    EXPECT_EQ(with(circle), false) << "ends";
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
