// orrery doctor: what it prints of machines that are made up, and the program on this one.
#include <sys/wait.h>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/run/doctor_report.hpp"
#include "tests/cli/world.hpp"
#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Independent of the machine that runs the test.
runtime::Machine machine_of(runtime::FakeLoader& loader,
                            const std::vector<std::string>& environment = {}) {
    runtime::Machine machine = runtime::inspect_machine(loader, runtime::fake_host(), environment);
    machine.built_with_cuda = "13.0.88";
    machine.processor.cores = 8;
    machine.processor.usable = 4;
    machine.processor.kernels = "v3";
    return machine;
}

std::string printed(const runtime::Machine& machine, const runtime::BackendRow* asked = nullptr) {
    std::ostringstream out;
    std::ostringstream err;
    Console console{out, err};
    print_doctor(machine, asked, console);
    EXPECT_EQ(err.str(), "");
    return out.str();
}

TEST(Doctor, ReportsSettingsOfNccl) {
    runtime::FakeLoader loader = runtime::two_gpus();
    const runtime::Machine machine = machine_of(loader, {"NCCL_IB_TIMEOUT=14", "NCCLX=1"});
    const std::string text = printed(machine);
    EXPECT_THAT(text, HasSubstr("settings of NCCL\n  NCCL_IB_TIMEOUT  14  environment\n"));
    EXPECT_THAT(text, HasSubstr("ends the run: NCCL_IB_TIMEOUT=14"));
    const json report = json::parse(doctor_json(machine).dump());
    EXPECT_EQ(
        report["nccl_settings"],
        json::parse(R"([{"name": "NCCL_IB_TIMEOUT", "value": "14", "origin": "environment"}])"));
    EXPECT_THAT(printed(machine_of(loader)), Not(HasSubstr("settings of NCCL")));
}

TEST(Doctor, ReportsTwoGpus) {
    runtime::FakeLoader loader = runtime::two_gpus();
    expect_golden("doctor_two_gpus.txt", printed(machine_of(loader)));
}

// Two sockets with four GPUs and four adapters each.
TEST(Doctor, ReportsWhereGpusAndAdaptersHang) {
    runtime::FakeLoader loader = runtime::dgx_gpus();
    const std::string root = runtime::fake_dgx("doctor-dgx");
    runtime::write_into(root, {{"/proc/driver/nvidia/version", "NVIDIA Open Kernel Module 580\n"},
                               {"/proc/sys/kernel/osrelease", "6.8.0-45-generic\n"},
                               {"/sys/class/iommu/dmar0/type", ""}});
    runtime::Machine machine = runtime::inspect_machine(loader, root, {});
    const std::string text = printed(machine);
    const std::size_t section = text.find("\nGPUDirect RDMA\n");
    ASSERT_NE(section, std::string::npos);
    const std::size_t near = text.find("  near");
    ASSERT_NE(near, std::string::npos);
    expect_golden("doctor_gpu_direct.txt",
                  text.substr(near, text.find("\n\n", near) + 1 - near) +
                      text.substr(section, text.find("\n\n", section) + 1 - section));
    EXPECT_THAT(text, HasSubstr("  NUMA nodes     0: 0-55,112-167; 1: 56-111,168-223\n"));
    EXPECT_THAT(text, HasSubstr("the IOMMU translates addresses"));
    const json report = json::parse(doctor_json(machine).dump());
    EXPECT_EQ(report["host"]["numa_nodes"], json::parse(R"([{"node": 0, "cores": "0-55,112-167"},
                              {"node": 1, "cores": "56-111,168-223"}])"));
    EXPECT_EQ(report["gpus"][4]["bus_id"], "0000:9d:00.0");
    EXPECT_EQ(report["gpus"][4]["numa_node"], 1);
    EXPECT_EQ(report["gpus"][4]["cores"], "56-111,168-223");
    EXPECT_EQ(report["adapters"][4]["name"], "mlx5_4");
    EXPECT_EQ(report["adapters"][4]["bus_id"], "0000:9a:00.0");
    EXPECT_EQ(report["adapters"][4]["to_gpus"],
              json::parse(R"(["SYS", "SYS", "SYS", "SYS", "PIX", "NODE", "NODE", "NODE"])"));
    EXPECT_EQ(report["gpu_direct"],
              json::parse(R"({"usable": true, "peer_memory_module": null, "dma_buf": true,
                              "open_kernel_modules": true, "kernel": "6.8.0-45-generic",
                              "iommu_translates": true, "acs_redirects_at": null})"));
}

TEST(Doctor, ReportsAMachineWithoutAnything) {
    runtime::FakeLoader nothing;
    expect_golden("doctor_nothing.txt", printed(machine_of(nothing)));
}

TEST(Doctor, ReportsADriverThatIsTooOld) {
    runtime::FakeLoader loader = runtime::two_gpus();
    runtime::fake_gpus.cuda = 12040;
    const std::string text = printed(machine_of(loader));
    EXPECT_THAT(text, HasSubstr("driver   580.65.06, runs CUDA up to 12.4\n"));
    EXPECT_THAT(text, HasSubstr("backend cpu: ready\nbackend cuda: not ready\n"));
    EXPECT_THAT(text, HasSubstr("-> install driver 580 or later"));
}

TEST(Doctor, SpeaksOfTheBackendThatWasAskedFor) {
    runtime::FakeLoader loader = runtime::two_gpus();
    const std::string text = printed(machine_of(loader), &runtime::backend_named("cuda"));
    EXPECT_THAT(text, HasSubstr("backend cuda: ready\n"));
    EXPECT_THAT(text, Not(HasSubstr("backend cpu")));
}

TEST(Doctor, SaysTheSameInJson) {
    runtime::FakeLoader loader = runtime::two_gpus();
    loader.libraries.erase("libnccl.so.2");
    const json report = doctor_json(machine_of(loader));
    EXPECT_EQ(report["host"]["cores"], 8);
    EXPECT_EQ(report["host"]["quota_cores"], 2.5);
    EXPECT_EQ(report["host"]["open_files_limit"], nullptr);
    EXPECT_EQ(report["driver"]["cuda"], "13.0");
    ASSERT_EQ(report["gpus"].size(), 2u);
    EXPECT_EQ(report["gpus"][0]["compute_capability"], 9.0);
    EXPECT_EQ(report["gpus"][0]["partitioned"], nullptr);
    EXPECT_EQ(report["gpus"][1]["power_limit_w"], 500);
    EXPECT_EQ(report["gpus"][1]["bus_id"], nullptr);
    EXPECT_EQ(report["gpus"][1]["numa_node"], nullptr);
    EXPECT_EQ(report["gpu_direct"]["usable"], nullptr);
    EXPECT_EQ(report["peer_access"], json::parse(R"([["self", "nvlink"], ["nvlink", "self"]])"));
    EXPECT_EQ(report["network"][0]["gigabits_per_s"], 400);
    EXPECT_EQ(report["libraries"][1]["name"], "NCCL");
    EXPECT_EQ(report["libraries"][1]["found"], false);
    EXPECT_THAT(report["libraries"][1]["remedy"], HasSubstr("libnccl2"));
    EXPECT_EQ(report["backends"]["cpu"]["ready"], true);
    EXPECT_EQ(report["backends"]["cuda"]["ready"], false);
    EXPECT_EQ(report["backends"]["cuda"]["missing"].size(), 1u);
    EXPECT_GE(report["advice"].size(), 1u);
}

Outcome doctor(const std::string& arguments) {
    const std::string base = testing::TempDir() + fmt::format("doctor-{}", getpid());
    const int status = std::system(
        fmt::format("{} doctor {} >{}.out 2>{}.err", program("orrery-run"), arguments, base, base)
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
            content_of(base + ".err")};
}

TEST(Doctor, ExitsWithSixWhereTheBackendIsNotReady) {
    const Outcome whole = doctor("--json");
    EXPECT_EQ(whole.code, 0);
    EXPECT_EQ(whole.err, "");
    const json report = json::parse(whole.out);
    EXPECT_GT(report["host"]["memory_bytes"], 0);
    EXPECT_EQ(doctor("").code, 0);
    EXPECT_EQ(doctor("--backend cpu").code, 0);
    const bool ready = report["backends"]["cuda"]["ready"];
    EXPECT_EQ(doctor("--backend cuda").code, ready ? 0 : 6);
    EXPECT_EQ(doctor("--backend cuda --json").code, ready ? 0 : 6);
    EXPECT_EQ(doctor("--backend tpu").code, 2);
}

const std::string kTinyGpt = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json";

// Of two ranks.
Outcome preflight(const std::string& options) {
    return doctor(
        fmt::format("--preflight {} --set layout.data_parallel=2 --set "
                    "layout.tensor_parallel=1 --set layout.pipeline_parallel=1 {}",
                    kTinyGpt, options));
}

TEST(DoctorPreflight, TimesWhatTheRanksOfARunDo) {
    const Outcome outcome = preflight("--steps 1 --tolerance 10000 --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json report = json::parse(outcome.out);
    EXPECT_EQ(report["backend"], "cpu");
    EXPECT_EQ(report["steps"], 1);
    EXPECT_EQ(report["tolerance"], 100);
    EXPECT_EQ(report["hosts"].size(), 2U);
    EXPECT_EQ(report["slow"], json::array());
    std::vector<std::string> checks;
    for (const json& check : report["checks"]) {
        checks.push_back(check["check"]);
        const bool of_ranks = check["check"] == "product" || check["check"] == "memory";
        EXPECT_EQ(check["timings"].size(), of_ranks ? 2U : 1U);
        for (const json& timing : check["timings"]) {
            const double seconds = timing["time_s"], expected = timing["expected_s"];
            EXPECT_GT(seconds, 0);
            EXPECT_NEAR(timing["slowdown"].get<double>() * check["over_profile"].get<double>(),
                        seconds / expected, 1e-9 * seconds / expected);
        }
    }
    EXPECT_THAT(checks, ::testing::ElementsAre("product", "memory", "pair", "all_reduce"));
    // A message of 16 MiB, sum of 32 MiB over two ranks: 2 (n - 1) / n = 1 time its bytes.
    for (const auto& [check, bytes] : {std::pair{2, 16 << 20}, std::pair{3, 32 << 20}}) {
        const json& of = report["checks"][check];
        EXPECT_EQ(of["bytes"], bytes);
        const double rate = of["timings"][0]["bytes_per_s"], seconds = of["timings"][0]["time_s"];
        EXPECT_NEAR(rate * seconds, bytes, 1e-6 * bytes);
    }
}

// No two ranks take as long to the nanosecond.
TEST(DoctorPreflight, EndsWithSevenWhereSomethingIsSlow) {
    const Outcome outcome = preflight("--steps 1 --tolerance 0");
    EXPECT_EQ(outcome.code, 7) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("preflight of 2 cpu ranks on 1 node, 1 step\n"));
    EXPECT_THAT(outcome.out, HasSubstr("\nslow: more than 0.0 % longer than its like\n"));
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex("rank [01] on .*x the time of the others\n"));
}

TEST(DoctorPreflight, RefusesWhatItCannotDo) {
    for (const std::string& words :
         {std::string("--preflight"), kTinyGpt, std::string("--tolerance 5"),
          std::string("--steps 5"), kTinyGpt + " --preflight --tolerance nan",
          kTinyGpt + " --preflight --ranks-per-gpu 2"})
        EXPECT_EQ(doctor(words).code, 2) << words;
    EXPECT_EQ(doctor("--preflight nowhere.json").code, 5);
    EXPECT_EQ(preflight("--set layout.tensor_parallel=3").code, 3);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
