#include "runtime/machine/requirements.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// Runs do without.
void advise_on_cudnn(const Machine& machine, std::vector<Finding>& advice) {
    if (machine.gpus.empty()) return;
    const Library& library = machine.library("cuDNN");
    if (library.found()) return;
    advice.push_back(
        {why_missing(library) + ": attention is by Orrery's own kernels, which are slower",
         library.remedy});
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

// Of which a port is active; all where none is, since links may come up.
std::vector<const Adapter*> adapters_in_use(const Machine& machine) {
    const auto is_active = [&](const Adapter& adapter) {
        return std::any_of(
            machine.network.begin(), machine.network.end(), [&](const NetworkPort& port) {
                return port.name.rfind(adapter.name + '/', 0) == 0 && port.state == "active";
            });
    };
    std::vector<const Adapter*> active, all;
    for (const Adapter& adapter : machine.adapters) {
        all.push_back(&adapter);
        if (is_active(adapter)) active.push_back(&adapter);
    }
    return active.empty() ? all : active;
}

// Why neither way is there.
std::string why_no_gpu_direct(const GpuDirect& direct) {
    return fmt::format(
        "adapters cannot read GPUs' memory (GPUDirect RDMA): nvidia_peermem is not loaded, and "
        "dma-buf needs {}: messages between nodes pass through the host's memory",
        direct.open_modules == false
            ? std::string("the driver's open kernel modules")
            : fmt::format("a kernel of 5.12 or later, and this is {}", or_unknown(direct.kernel)));
}

// GPUs whose nearest adapter is beyond a host bridge: up to PXB NCCL lets adapters read by itself.
void advise_on_far_adapters(const Machine& machine, std::vector<Finding>& advice) {
    for (const NcclSetting& setting : machine.nccl_settings)
        if (setting.name == "NCCL_NET_GDR_LEVEL" || setting.name == "NCCL_TOPO_FILE") return;
    std::vector<std::string> far;
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        const Adapter* nearest = nullptr;
        for (const Adapter* adapter : adapters_in_use(machine))
            if (adapter->to_gpus[gpu] &&
                (nearest == nullptr || *adapter->to_gpus[gpu] < *nearest->to_gpus[gpu]))
                nearest = adapter;
        if (nearest != nullptr && *nearest->to_gpus[gpu] > Proximity::pxb)
            far.push_back(
                fmt::format("GPU {} ({}: {})", gpu, nearest->name, name(*nearest->to_gpus[gpu])));
    }
    if (far.empty()) return;
    advice.push_back({fmt::format("no adapter is below the same PCIe switch as {}: by default NCCL "
                                  "uses GPUDirect RDMA up to PXB, and the host's memory beyond",
                                  fmt::join(far, ", ")),
                      "in a virtual machine NCCL_TOPO_FILE with the cloud's description of its "
                      "host; else time run.nccl.net_gdr_level \"PHB\" or \"SYS\""});
}

void advise_on_gpu_direct(const Machine& machine, std::vector<Finding>& advice) {
    if (machine.gpus.empty() || machine.adapters.empty()) return;
    const GpuDirect& direct = machine.gpu_direct;
    if (has_gpu_direct(machine) == false) {
        advice.push_back({why_no_gpu_direct(direct),
                          "modprobe nvidia_peermem (as root; it comes with the driver), or install "
                          "the driver with its open kernel modules (apt-get install nvidia-open)"});
        return;
    }
    if (direct.iommu_translates == true)
        advice.push_back(
            {"the IOMMU translates addresses: what GPUs and adapters send one another goes up to "
             "the processor",
             "iommu=pt on the kernel's command line, or VT-d or AMD-Vi off in the BIOS; a virtual "
             "machine's host needs it"});
    if (direct.redirecting && !direct.redirecting->empty())
        advice.push_back(
            {fmt::format("PCIe ACS redirects requests at {}: what GPUs and adapters below one "
                         "switch send one another goes up to the processor",
                         fmt::join(*direct.redirecting, ", ")),
             "ACS off in the BIOS, or after each start, of each of them: setpci -s BRIDGE "
             "ECAP_ACS+6.w=0000 (as root; NCCL's user guide, Troubleshooting)"});
    advise_on_far_adapters(machine, advice);
}

}  // namespace

std::optional<bool> has_gpu_direct(const Machine& machine) {
    if (machine.gpus.empty()) return std::nullopt;
    if (machine.adapters.empty()) return false;
    if (!machine.gpu_direct.peer_memory_module.empty()) return true;
    return machine.gpu_direct.dma_buf;
}

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
    advise_on_cudnn(machine, advice);
    advise_on_limits(machine, advice);
    advise_on_gpu_direct(machine, advice);
    advise_on_nccl(machine, advice);
    return advice;
}

}  // namespace orrery::runtime
