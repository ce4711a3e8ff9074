#include "runtime/machine/inspect.hpp"
#include "runtime/machine/find_library.hpp"

#include <thread>

#include <gmock/gmock.h>

#include "runtime/cpu/kernels.hpp"
#include "runtime/launch/bind_thread.hpp"
#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

TEST(InspectHost, ReadsWhatTheKernelLists) {
    Machine machine;
    inspect_host(fake_host(), machine);
    EXPECT_EQ(machine.processor.model, "Test Processor 9000");
    EXPECT_EQ(machine.processor.sockets, 2);
    EXPECT_GE(machine.processor.cores, 8);
    EXPECT_EQ(machine.processor.quota, 2.5);
    EXPECT_EQ(machine.processor.kernels, kernels().instruction_set);
    EXPECT_EQ(machine.memory.total_bytes, std::int64_t{16} << 30);
    EXPECT_EQ(machine.memory.available_bytes, std::int64_t{8} << 30);
    EXPECT_EQ(machine.memory.limit_bytes, std::int64_t{4} << 30);
    EXPECT_EQ(machine.limits.locked_bytes, 8 << 20);
    EXPECT_EQ(machine.limits.open_files, std::nullopt);
    EXPECT_EQ(machine.limits.shared_memory_bytes, std::nullopt);  // no /dev/shm in that folder
}

TEST(InspectHost, CountsTheCoresOfTheMask) {
    const CpuList allowed = allowed_cpus();
    ASSERT_FALSE(allowed.empty());
    Machine machine;
    std::thread([&] {
        RankBinding one;
        one.cpus = {allowed.back()};
        EXPECT_EQ(bind_thread(one).cores, "");
        inspect_host(fake_host(), machine);
    }).join();
    EXPECT_EQ(machine.processor.usable, 1);
    EXPECT_GE(machine.processor.cores, 8) << "as the kernel lists them";
}

TEST(InspectHost, LeavesOutWhatIsNotThere) {
    Machine machine;
    inspect_host(testing::TempDir() + "nowhere", machine);
    EXPECT_EQ(machine.processor.model, "unknown");
    EXPECT_GE(machine.processor.cores, 1);
    EXPECT_EQ(machine.processor.quota, std::nullopt);
    EXPECT_EQ(machine.memory.limit_bytes, std::nullopt);
    const std::string root = fake_root("unlimited", {{"/sys/fs/cgroup/cpu.max", "max 100000\n"},
                                                     {"/sys/fs/cgroup/memory.max", "max\n"}});
    inspect_host(root, machine);
    EXPECT_EQ(machine.processor.quota, std::nullopt);
    EXPECT_EQ(machine.memory.limit_bytes, std::nullopt);
}

TEST(InspectNetwork, ListsInfiniBandThenEthernetWithADeviceBehindIt) {
    const auto ports = inspect_network(fake_host());
    ASSERT_EQ(ports.size(), 4u);
    EXPECT_EQ(ports[0].name, "mlx5_0/1");
    EXPECT_EQ(ports[0].kind, "InfiniBand");
    EXPECT_EQ(ports[0].state, "active");
    EXPECT_EQ(ports[0].gigabits_per_s, 400);
    EXPECT_EQ(ports[1].name, "mlx5_1/1");
    EXPECT_EQ(ports[1].kind, "RoCE");
    EXPECT_EQ(ports[1].state, "down");
    EXPECT_EQ(ports[2].name, "eth0");
    EXPECT_EQ(ports[2].gigabits_per_s, std::nullopt);
    EXPECT_EQ(ports[3].name, "eth1");
    EXPECT_EQ(ports[3].kind, "Ethernet");
    EXPECT_EQ(ports[3].gigabits_per_s, 25);
    EXPECT_THAT(inspect_network(testing::TempDir() + "nowhere"), IsEmpty());
}

TEST(InspectNvidia, ReadsGpusAndHowTheyReachEachOther) {
    FakeLoader loader = two_gpus();
    Machine machine;
    inspect_nvidia(loader, machine);
    EXPECT_EQ(machine.driver.library.path, "/fake/libcuda.so.1");
    EXPECT_EQ(machine.driver.version, "580.65.06");
    EXPECT_EQ(machine.driver.cuda, 13000);
    EXPECT_EQ(machine.driver.visible, 2);
    EXPECT_EQ(machine.driver.problem, "");
    ASSERT_EQ(machine.gpus.size(), 2u);
    const Gpu& gpu = machine.gpus[1];
    EXPECT_EQ(gpu.name, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(gpu.memory_bytes, 85'000'000'000);
    EXPECT_EQ(gpu.compute_capability, 90);
    EXPECT_EQ(gpu.clock_MHz, 345);
    EXPECT_EQ(gpu.most_clock_MHz, 1980);
    EXPECT_EQ(gpu.memory_clock_MHz, 2619);
    EXPECT_EQ(gpu.power_limit_w, 500);
    EXPECT_EQ(gpu.default_power_limit_w, 700);
    EXPECT_EQ(gpu.ecc, true);
    EXPECT_EQ(gpu.partitioned, std::nullopt) << "this GPU knows no MIG";
    EXPECT_EQ(gpu.nvlinks, 12);
    EXPECT_THAT(machine.peers, ElementsAre(ElementsAre(PeerAccess::self, PeerAccess::nvlink),
                                           ElementsAre(PeerAccess::nvlink, PeerAccess::self)));
    fake_gpus.nvlink = false;
    Machine without;
    inspect_nvidia(loader, without);
    EXPECT_EQ(without.gpus.at(0).nvlinks, 0);
    EXPECT_EQ(without.peers.at(0).at(1), PeerAccess::pcie);
}

TEST(InspectNvidia, SaysWhatTheDriverComplainsOf) {
    FakeLoader loader = two_gpus();
    fake_gpus.init = 803;
    Machine machine;
    inspect_nvidia(loader, machine);
    EXPECT_EQ(machine.driver.problem, "cuInit fails with 803: system driver mismatch");
    EXPECT_EQ(machine.driver.visible, std::nullopt);
    fake_gpus.init = 100;  // CUDA_ERROR_NO_DEVICE
    Machine without;
    inspect_nvidia(loader, without);
    EXPECT_EQ(without.driver.problem, "");
    EXPECT_EQ(without.driver.visible, 0);
}

TEST(InspectNvidia, StandsADriverThatLacksFunctions) {
    FakeLoader loader;
    loader.libraries["libnvidia-ml.so.1"] = {};
    loader.libraries["libcuda.so.1"] = {};
    Machine machine;
    inspect_nvidia(loader, machine);
    EXPECT_TRUE(machine.driver.library.found());
    EXPECT_EQ(machine.driver.cuda, std::nullopt);
    EXPECT_THAT(machine.gpus, IsEmpty());
    EXPECT_NE(machine.driver.problem, "");
}

TEST(InspectLibraries, AsksEachForItsVersion) {
    FakeLoader loader;
    add_fake_libraries(loader);
    loader.problems["libcudnn.so.9"] = "libcudnn.so.9: undefined symbol: x";
    Machine machine;
    machine.libraries = inspect_libraries(loader);
    EXPECT_EQ(machine.library("cuBLASLt").version, "13.1.0");
    EXPECT_EQ(machine.library("NCCL").version, "2.28.5");
    EXPECT_EQ(machine.library("NCCL").path, "/fake/libnccl.so.2");
    EXPECT_EQ(machine.library("MPI").version, "Open MPI v4.1.4");
    EXPECT_FALSE(machine.library("cuDNN").found());
    EXPECT_EQ(machine.library("cuDNN").problem, "libcudnn.so.9: undefined symbol: x");
}

// Wheels of NVIDIA bring NCCL where no loader looks.
TEST(FindLibrary, TakesWhatPackagesOfPythonBring) {
    FakeLoader loader;
    add_fake_libraries(loader);
    const std::string wheel = "/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
    loader.libraries[wheel] = loader.libraries["libnccl.so.2"];
    loader.libraries.erase("libnccl.so.2");
    const std::vector<std::string> folders = {"/other", "/venv/lib/python3.11/site-packages"};
    const FoundLibrary found = find_library(loader, "NCCL", folders);
    ASSERT_TRUE(found.library);
    EXPECT_EQ(found.facts.file, wheel);
    EXPECT_EQ(found.facts.version, "2.28.5");
    EXPECT_FALSE(find_library(loader, "NCCL", {"/other"}).facts.found());
}

TEST(FindLibrary, PassesOverOneThatIsTooOld) {
    FakeLoader loader;
    provide(
        loader.libraries["libnccl.so.2"], "ncclGetVersion", +[](int* code) {
            *code = 21403;
            return 0;
        });
    const FoundLibrary old = find_library(loader, "NCCL", {"/packages"});
    EXPECT_FALSE(old.library);
    EXPECT_EQ(why_missing(old.facts),
              "NCCL does not load: /fake/libnccl.so.2 is version 2.14.3, and 2.19.0 is the oldest "
              "that will do");
    provide(
        loader.libraries["/packages/nvidia/nccl/lib/libnccl.so.2"], "ncclGetVersion",
        +[](int* code) {
            *code = 22703;
            return 0;
        });
    const FoundLibrary found = find_library(loader, "NCCL", {"/packages"});
    EXPECT_EQ(found.facts.version, "2.27.3");
    EXPECT_EQ(found.facts.problem, "");
}

TEST(FindLibrary, KnowsTheFoldersOfEveryInterpreterInPath) {
    namespace fs = std::filesystem;
    const fs::path root = fs::path(testing::TempDir()) / "interpreters";
    fs::remove_all(root);
    for (const char* python : {"a/lib/python3.9/site-packages", "a/lib/python3.11/site-packages",
                               "b/lib/python3.12/dist-packages", "c/lib/python3.12/site-packages"})
        fs::create_directories(root / python);
    for (const char* prefix : {"a", "c"}) {
        fs::create_directories(root / prefix / "bin");
        std::ofstream(root / prefix / "bin/python3") << "";
    }
    fs::create_directories(root / "b/bin");  // no interpreter
    const std::string path = (root / "a/bin").string() + ":" + (root / "b/bin").string() + ":" +
                             (root / "c/bin").string() + ":" + (root / "a/bin").string();
    const auto variable = [&](const char* name) -> const char* {
        if (std::string(name) == "PATH") return path.c_str();
        return std::string(name) == "PYTHONPATH" ? "/first:/second" : nullptr;
    };
    std::vector<std::string> folders = python_package_folders(variable);
    std::erase_if(folders, [](const std::string& of) { return of.rfind("/usr/", 0) == 0; });
    EXPECT_THAT(folders,
                testing::ElementsAre("/first", "/second", root / "a/lib/python3.9/site-packages",
                                     root / "a/lib/python3.11/site-packages",
                                     root / "c/lib/python3.12/site-packages"));
}

TEST(SystemLoader, TellsAMissingLibraryFromABrokenOne) {
    SystemLoader loader;
    std::string problem;
    EXPECT_EQ(loader.open("liborrery-has-no-such.so.1", problem), nullptr);
    EXPECT_EQ(problem, "");
    const std::string broken = testing::TempDir() + "libbroken.so.1";
    std::ofstream(broken) << "no library";
    EXPECT_EQ(loader.open(broken, problem), nullptr);
    EXPECT_NE(problem, "");
    problem.clear();
    const auto c_library = loader.open("libc.so.6", problem);
    ASSERT_NE(c_library, nullptr);
    EXPECT_THAT(c_library->path(), EndsWith("/libc.so.6"));
    EXPECT_NE(c_library->symbol("malloc"), nullptr);
    EXPECT_EQ(c_library->symbol("orrery_has_no_such"), nullptr);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
