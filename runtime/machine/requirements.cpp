#include "runtime/machine/requirements.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/machine/find_library.hpp"
#include "runtime/machine/nccl_settings.hpp"

namespace orrery::runtime {
namespace {

constexpr int kLeastCapability =
    80;                            // bf16 in tensor cores: the kernels are built for it and later
constexpr int kLeastCuda = 13000;  // of which the kernels are built
constexpr const char* kLeastDriver = "580";  // the first that runs it

std::string or_unknown(const std::string& text) {
    return text.empty() ? "of unknown version" : text;
}

void check_driver(const Driver& driver, std::vector<Finding>& missing) {
    const Library& library = driver.library;
    if (!library.found()) {
        missing.push_back(
            {library.problem.empty()
                 ? fmt::format("there is no NVIDIA driver ({})", library.file)
                 : fmt::format("the NVIDIA driver does not load: {}", library.problem),
             library.remedy});
        return;
    }
    if (driver.cuda && *driver.cuda < kLeastCuda)
        missing.push_back(
            {fmt::format("the driver ({}) is too old: it runs CUDA up to {}, the kernels are of {}",
                         or_unknown(driver.version), cuda_version_text(*driver.cuda),
                         cuda_version_text(kLeastCuda)),
             fmt::format("install driver {} or later", kLeastDriver)});
    if (!driver.problem.empty())
        missing.push_back(
            {fmt::format("the driver ({}) does not work: {}", or_unknown(driver.version),
                         driver.problem),
             "restart the machine after an update of the driver; see dmesg for its messages"});
}

void check_gpus(const Machine& machine, std::vector<Finding>& missing) {
    if (machine.driver.visible == 0) {
        missing.push_back(
            {machine.gpus.empty()
                 ? "the driver knows no GPU"
                 : fmt::format("none of {} GPUs is visible to this process", machine.gpus.size()),
             machine.gpus.empty() ? "see nvidia-smi; a container must be started with its GPUs"
                                  : "unset CUDA_VISIBLE_DEVICES, or name GPUs that are there"});
    }
    const bool any_new_enough =
        machine.gpus.empty() ||
        std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) {
            return gpu.compute_capability.value_or(kLeastCapability) >= kLeastCapability;
        });
    if (!any_new_enough)
        missing.push_back(
            {"no GPU has compute capability 8.0 (A100) or later, for which the "
             "kernels are built",
             "use other GPUs, or --backend cpu"});
}

void check_library(const Library& library, std::vector<Finding>& missing) {
    if (library.found()) return;
    missing.push_back({why_missing(library), library.remedy});
}

void advise_on_gpus(const Machine& machine, std::vector<Finding>& advice) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        const Gpu& gpu = machine.gpus[i];
        if (gpu.persistence == false)
            advice.push_back({fmt::format("GPU {}: persistence mode is off: the first use of it "
                                          "takes seconds, and clocks start low",
                                          i),
                              fmt::format("nvidia-smi -i {} -pm 1 (as root)", i)});
        if (gpu.power_limit_w && gpu.default_power_limit_w &&
            *gpu.power_limit_w < *gpu.default_power_limit_w)
            advice.push_back({fmt::format("GPU {}: power is limited to {:.0f} of {:.0f} W: slower "
                                          "than profiles of the device say",
                                          i, *gpu.power_limit_w, *gpu.default_power_limit_w),
                              fmt::format("nvidia-smi -i {} -pl {:.0f} (as root), or calibrate", i,
                                          *gpu.default_power_limit_w)});
        if (gpu.ecc == false)
            advice.push_back({fmt::format("GPU {}: ECC is off: a flipped bit goes unnoticed", i),
                              fmt::format("nvidia-smi -i {} -e 1 (as root), then a restart", i)});
        if (gpu.partitioned == true)
            advice.push_back({fmt::format("GPU {}: is partitioned (MIG): a program gets one part, "
                                          "and no peer access",
                                          i),
                              fmt::format("nvidia-smi -i {} -mig 0 (as root)", i)});
    }
}

void advise_on_limits(const Machine& machine, std::vector<Finding>& advice) {
    constexpr std::int64_t kLeastShared = 1 << 30;
    constexpr std::int64_t kLeastFiles = 4096;
    const Limits& limits = machine.limits;
    const bool rdma = std::any_of(machine.network.begin(), machine.network.end(),
                                  [](const NetworkPort& port) { return port.kind != "Ethernet"; });
    if (rdma && limits.locked_bytes)
        advice.push_back(
            {"locked memory is limited: InfiniBand and RoCE register memory, and "
             "may fail",
             "ulimit -l unlimited, or LimitMEMLOCK=infinity of the service"});
    if (machine.gpus.size() > 1 && limits.shared_memory_bytes.value_or(0) < kLeastShared)
        advice.push_back({"/dev/shm is smaller than 1 GiB: NCCL keeps buffers there",
                          "docker run --shm-size=8g (or --ipc=host)"});
    if (machine.gpus.size() > 1 && limits.open_files && *limits.open_files < kLeastFiles)
        advice.push_back({fmt::format("only {} files may be open: every connection between ranks "
                                      "is one",
                                      *limits.open_files),
                          "ulimit -n 65536"});
    for (const NetworkPort& port : machine.network)
        if (port.kind != "Ethernet" && port.state != "active")
            advice.push_back({fmt::format("{} {} is {}", port.kind, port.name, port.state),
                              "ibstat, and the cable"});
}

}  // namespace

std::vector<Finding> missing_for_cuda(const Machine& machine) {
    std::vector<Finding> missing;
    if (machine.built_with_cuda.empty())
        missing.push_back({"this program is built without CUDA", "./orrery build cuda"});
    check_driver(machine.driver, missing);
    check_gpus(machine, missing);
    check_library(machine.library("cuBLASLt"), missing);
    const int gpus = machine.driver.visible.value_or(static_cast<int>(machine.gpus.size()));
    if (gpus != 1) check_library(machine.library("NCCL"), missing);
    return missing;
}

std::vector<Finding> advice_for(const Machine& machine) {
    std::vector<Finding> advice;
    if (machine.processor.kernels == "baseline")
        advice.push_back(
            {"the processor lacks AVX2, FMA or F16C: the CPU backend runs kernels for "
             "any x86-64, several times slower",
             "a processor of 2013 or later; in a virtual machine: pass the host's "
             "through"});
    advise_on_gpus(machine, advice);
    advise_on_limits(machine, advice);
    advise_on_nccl(machine, advice);
    return advice;
}

}  // namespace orrery::runtime
