// What NCCL has been told, and which of it ends runs.
#include "runtime/machine/nccl_settings.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// With one active InfiniBand adapter, mlx5_0, another that is down, two GPUs and NCCL 2.28.
std::vector<std::string> advice_with(const std::vector<std::string>& environment,
                                     const std::string& nccl = "2.28.5") {
    FakeLoader loader = two_gpus();
    Machine machine = inspect_machine(loader, fake_host(), environment);
    machine.interfaces = {"bond0", "docker0", "eth0", "lo"};
    for (Library& library : machine.libraries)
        if (library.name == "NCCL") library.version = nccl;
    std::vector<Finding> advice;
    advise_on_nccl(machine, advice);
    std::vector<std::string> texts;
    for (const Finding& finding : advice) {
        EXPECT_NE(finding.remedy, "");
        texts.push_back(finding.what);
    }
    return texts;
}

std::vector<std::string> read(const std::string& root,
                              const std::vector<std::string>& environment) {
    std::vector<std::string> lines;
    for (const NcclSetting& setting : read_nccl_settings(root, environment))
        lines.push_back(setting.name + "=" + setting.value + " of " + setting.origin);
    return lines;
}

TEST(NcclSettings, AreOfTheEnvironmentThenTheUsersFileThenTheSystems) {
    const std::string root = testing::TempDir() + "nccl_root";
    std::filesystem::create_directories(root + "/etc");
    std::ofstream(root + "/etc/nccl.conf") << "# of the system\nNCCL_A=1\nNCCL_B=1\nNCCL_C==eth0\n";
    std::ofstream(root + "/.nccl.conf") << "NCCL_A=2\nNCCL_B=2\n";
    const std::string own = root + "/.nccl.conf";
    EXPECT_THAT(read(root, {"HOME=" + root, "NCCL_A=3", "PATH=/bin", "XNCCL_B=4"}),
                ElementsAre("NCCL_A=3 of environment", "NCCL_B=2 of " + own,
                            "NCCL_C==eth0 of /etc/nccl.conf"));
    std::ofstream(root + "/mine") << "NCCL_B=5\n";
    EXPECT_THAT(read(root, {"HOME=" + root, "NCCL_CONF_FILE=" + root + "/mine"}),
                ElementsAre("NCCL_A=1 of /etc/nccl.conf", "NCCL_B=5 of " + root + "/mine",
                            "NCCL_C==eth0 of /etc/nccl.conf",
                            "NCCL_CONF_FILE=" + root + "/mine of environment"));
}

// The table of NCCL's user guide: 17 -> 3.8 s, 18 -> 7.5, 20 -> 30, 22 -> two minutes.
TEST(NcclSettings, PatienceIsTheUserGuides) {
    EXPECT_NEAR(ib_patience_s(17, 7), 3.8, 0.05);
    EXPECT_NEAR(ib_patience_s(18, 7), 7.5, 0.05);
    EXPECT_NEAR(ib_patience_s(20, 7), 30, 0.1);
    EXPECT_NEAR(ib_patience_s(22, 7), 120, 1);
    EXPECT_TRUE(std::isinf(ib_patience_s(0, 7)));
    EXPECT_TRUE(std::isinf(ib_patience_s(32, 7)));
    EXPECT_EQ(ib_patience_s(20, 0), 0);
}

TEST(NcclSettings, AShortPatienceEndsRunsThatFlap) {
    EXPECT_THAT(advice_with({}), IsEmpty());
    EXPECT_THAT(advice_with({}, "2.19.3"),
                ElementsAre("an InfiniBand or RoCE link that is down for 7.5 s ends the run: "
                            "NCCL_IB_TIMEOUT=18 (its default), NCCL_IB_RETRY_CNT=7 (its default)"));
    EXPECT_THAT(advice_with({"NCCL_IB_TIMEOUT=22"}, "2.19.3"), IsEmpty());
    EXPECT_THAT(advice_with({"NCCL_IB_TIMEOUT=14"}),
                ElementsAre("an InfiniBand or RoCE link that is down for 0.47 s ends the run: "
                            "NCCL_IB_TIMEOUT=14 (environment), NCCL_IB_RETRY_CNT=7 (its default)"));
    EXPECT_THAT(advice_with({"NCCL_IB_RETRY_CNT=1"}),
                ElementsAre(HasSubstr("is down for 4.3 s ends the run: NCCL_IB_TIMEOUT=20 (its "
                                      "default), NCCL_IB_RETRY_CNT=1 (environment)")));
    EXPECT_THAT(advice_with({"NCCL_IB_TIMEOUT=0"}), IsEmpty());
    EXPECT_THAT(advice_with({"NCCL_IB_TIMEOUT=2O"}),
                ElementsAre(HasSubstr("NCCL_IB_TIMEOUT=2O (environment) is no number from 0")));
    EXPECT_THAT(advice_with({"NCCL_IB_RETRY_CNT=9"}), ElementsAre(HasSubstr("from 0 to 7")));
}

TEST(NcclSettings, InterfacesMustBeThereAndReachOthers) {
    for (const char* fine : {"eth0", "=eth0", "eth,bond", "^lo,docker", "^=docker0"})
        EXPECT_THAT(advice_with({std::string("NCCL_SOCKET_IFNAME=") + fine}), IsEmpty()) << fine;
    for (const char* none : {"ens1f0", "=eth", "^eth,bond,lo,docker"})
        EXPECT_THAT(advice_with({std::string("NCCL_SOCKET_IFNAME=") + none}),
                    ElementsAre(HasSubstr("takes no interface of this machine")))
            << none;
    EXPECT_THAT(advice_with({"NCCL_SOCKET_IFNAME=lo,docker0"}),
                ElementsAre(HasSubstr("takes docker0, lo alone, which no other machine reaches")));
}

TEST(NcclSettings, AdaptersMustBeThereAndTaken) {
    for (const char* fine : {"mlx5", "=mlx5_0:1", "mlx5_0,mlx5_1", "^mlx5_1"})
        EXPECT_THAT(advice_with({std::string("NCCL_IB_HCA=") + fine}), IsEmpty()) << fine;
    for (const char* none : {"ibp3s0", "=mlx5", "^mlx5"})
        EXPECT_THAT(advice_with({std::string("NCCL_IB_HCA=") + none}),
                    ElementsAre(HasSubstr("takes no adapter of this machine")))
            << none;
    for (const char* off : {"NCCL_IB_DISABLE=1", "NCCL_NET=Socket", "NCCL_NET=socket"})
        EXPECT_THAT(advice_with({off}), ElementsAre(HasSubstr("machines take TCP"))) << off;
    EXPECT_THAT(advice_with({"NCCL_IB_DISABLE=0", "NCCL_NET=IB"}), IsEmpty());
    // mlx5_1 is the beginning of mlx5_10 too.
    Machine machine;
    for (const char* port : {"mlx5_1/1", "mlx5_10/1"})
        machine.network.push_back({port, "InfiniBand", "down", {}});
    machine.nccl_settings = {{"NCCL_IB_HCA", "mlx5_1", "environment"}};
    std::vector<Finding> advice;
    advise_on_nccl(machine, advice);
    ASSERT_EQ(advice.size(), 1u);
    EXPECT_THAT(advice[0].what, HasSubstr("means mlx5_10 as well"));
    machine.nccl_settings[0].value = "=mlx5_1";
    advice.clear();
    advise_on_nccl(machine, advice);
    EXPECT_EQ(advice.size(), 0u);
}

TEST(NcclSettings, SlowWaysAndUnsafeProtocolsAreNamed) {
    EXPECT_THAT(advice_with({"NCCL_P2P_DISABLE=1"}), ElementsAre(HasSubstr("slower ways")));
    EXPECT_THAT(advice_with({"NCCL_SHM_DISABLE=1"}), ElementsAre(HasSubstr("slower ways")));
    EXPECT_THAT(advice_with({"NCCL_P2P_DISABLE=0"}), IsEmpty());
    for (const char* forced : {"LL128", "Simple,LL128"})
        EXPECT_THAT(advice_with({std::string("NCCL_PROTO=") + forced}),
                    ElementsAre(HasSubstr("sums are wrong")))
            << forced;
    for (const char* fine : {"Simple", "LL,Simple", "^LL128"})
        EXPECT_THAT(advice_with({std::string("NCCL_PROTO=") + fine}), IsEmpty()) << fine;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
