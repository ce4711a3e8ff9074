#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/quantity.hpp"
#include "cli/run/doctor_report.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using runtime::Machine;

TextTable two_columns() {
    return TextTable({Align::left, Align::left});
}

std::string plural(std::int64_t count, const std::string& one) {
    return fmt::format("{} {}{}", whole_text(count), one, count == 1 ? "" : "s");
}

std::string or_unlimited(const std::optional<std::int64_t>& bytes) {
    return bytes ? bytes_text(static_cast<double>(*bytes)) : "unlimited";
}

std::string kernels_text(const std::string& instruction_set) {
    return instruction_set == "v3" ? "x86-64-v3 (AVX2, FMA)"
                                   : "any x86-64 (" + instruction_set + ")";
}

// "0: 0-55,112-167; 1: 56-111,168-223".
std::string numa_nodes_text(const std::vector<runtime::NumaNode>& nodes) {
    std::vector<std::string> texts;
    for (const runtime::NumaNode& node : nodes)
        texts.push_back(
            fmt::format("{}: {}", node.number,
                        node.cpus.empty() ? "no cores" : runtime::cpu_list_text(node.cpus)));
    return fmt::format("{}", fmt::join(texts, "; "));
}

std::string host_text(const Machine& machine) {
    const runtime::Processor& processor = machine.processor;
    const runtime::Memory& memory = machine.memory;
    const runtime::Limits& limits = machine.limits;
    TextTable table = two_columns();
    table.add(
        {"processor", fmt::format("{}, {}", processor.model, plural(processor.sockets, "socket"))});
    table.add({"cores", fmt::format("{} of {} usable{}", processor.usable, processor.cores,
                                    processor.quota
                                        ? fmt::format(", time of {:.3g} allowed", *processor.quota)
                                        : "")});
    if (machine.numa_nodes.size() > 1)
        table.add({"NUMA nodes", numa_nodes_text(machine.numa_nodes)});
    table.add({"kernels", kernels_text(processor.kernels)});
    table.add({"memory",
               fmt::format("{}, {} available{}", bytes_text(double(memory.total_bytes)),
                           bytes_text(double(memory.available_bytes)),
                           memory.limit_bytes ? fmt::format(", {} allowed",
                                                            bytes_text(double(*memory.limit_bytes)))
                                              : "")});
    table.add({"/dev/shm", limits.shared_memory_bytes
                               ? bytes_text(double(*limits.shared_memory_bytes))
                               : "not there"});
    table.add({"locked memory", or_unlimited(limits.locked_bytes)});
    table.add({"open files", limits.open_files ? whole_text(*limits.open_files) : "unlimited"});
    return table.text();
}

std::string clock_text(const std::optional<int>& now, const std::optional<int>& most) {
    if (!now && !most) return "";
    return fmt::format("{} of {} MHz", now ? whole_text(*now) : "?",
                       most ? whole_text(*most) : "?");
}

std::string mode_text(const std::optional<bool>& on) {
    if (!on) return "";
    return *on ? "on" : "off";
}

std::string gpus_text(const Machine& machine) {
    TextTable table({Align::right, Align::left, Align::right, Align::right, Align::right,
                     Align::right, Align::right, Align::left, Align::left, Align::right});
    table.add({"", "", "memory", "capability", "clock", "memory clock", "power", "ECC",
               "persistence", "NVLinks"});
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        const runtime::Gpu& gpu = machine.gpus[i];
        table.add({std::to_string(i), gpu.name,
                   gpu.memory_bytes ? bytes_text(double(*gpu.memory_bytes)) : "",
                   gpu.compute_capability ? fmt::format("{}.{}", *gpu.compute_capability / 10,
                                                        *gpu.compute_capability % 10)
                                          : "",
                   clock_text(gpu.clock_MHz, gpu.most_clock_MHz),
                   clock_text(gpu.memory_clock_MHz, gpu.most_memory_clock_MHz),
                   gpu.power_limit_w ? fmt::format("{:.0f} W", *gpu.power_limit_w) : "",
                   mode_text(gpu.ecc), mode_text(gpu.persistence), std::to_string(gpu.nvlinks)});
    }
    return table.text();
}

std::string peer_text(runtime::PeerAccess access) {
    switch (access) {
        case runtime::PeerAccess::self:
            return "-";
        case runtime::PeerAccess::nvlink:
            return "NVLink";
        case runtime::PeerAccess::pcie:
            return "PCIe";
        case runtime::PeerAccess::none:
            break;
    }
    return "none";
}

std::string peers_text(const Machine& machine) {
    TextTable table(std::vector<Align>(machine.peers.size() + 1, Align::left));
    std::vector<std::string> names = {"peer access"};
    for (std::size_t to = 0; to < machine.peers.size(); ++to)
        names.push_back("GPU " + std::to_string(to));
    table.add(names);
    for (std::size_t from = 0; from < machine.peers.size(); ++from) {
        std::vector<std::string> row = {"GPU " + std::to_string(from)};
        for (const runtime::PeerAccess access : machine.peers[from])
            row.push_back(peer_text(access));
        table.add(row);
    }
    return table.text();
}

std::string or_unsaid(const std::string& text) {
    return text.empty() ? "?" : text;
}

// From which cores each GPU is near, and how far adapters are from it.
std::string places_text(const Machine& machine) {
    TextTable table(std::vector<Align>(machine.adapters.size() + 3, Align::left));
    std::vector<std::string> names = {"near", "NUMA node", "cores"};
    for (const runtime::Adapter& adapter : machine.adapters)
        names.push_back(adapter.name);
    table.add(names);
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        const runtime::Gpu& gpu = machine.gpus[i];
        std::vector<std::string> row = {
            "GPU " + std::to_string(i),
            or_unsaid(gpu.pci.numa_node ? std::to_string(*gpu.pci.numa_node) : ""),
            or_unsaid(runtime::cpu_list_text(machine.cpus_of(gpu)))};
        for (const runtime::Adapter& adapter : machine.adapters)
            row.push_back(adapter.to_gpus[i] ? runtime::name(*adapter.to_gpus[i]) : "?");
        table.add(row);
    }
    return table.text();
}

bool says_places(const Machine& machine) {
    return std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const runtime::Gpu& gpu) {
        return !gpu.pci.way.empty() || gpu.pci.numa_node;
    });
}

std::string driver_text(const Machine& machine) {
    const runtime::Driver& driver = machine.driver;
    if (!driver.library.found() && !driver.management.found())
        return "  no NVIDIA driver (" + driver.library.file + ")\n";
    TextTable table = two_columns();
    table.add(
        {"driver", fmt::format("{}{}", driver.version.empty() ? "unknown version" : driver.version,
                               driver.cuda ? fmt::format(", runs CUDA up to {}",
                                                         runtime::cuda_version_text(*driver.cuda))
                                           : "")});
    if (driver.visible)
        table.add({"visible", fmt::format("{} to this process", plural(*driver.visible, "GPU"))});
    if (!driver.problem.empty()) table.add({"problem", driver.problem});
    return table.text() + (machine.gpus.empty() ? "" : gpus_text(machine)) +
           (machine.gpus.size() > 1 ? '\n' + peers_text(machine) : "") +
           (says_places(machine) ? '\n' + places_text(machine) : "");
}

std::string network_text(const Machine& machine) {
    if (machine.network.empty()) return "  no network device\n";
    TextTable table({Align::left, Align::left, Align::left, Align::left});
    for (const runtime::NetworkPort& port : machine.network)
        table.add({port.name, port.kind, port.state,
                   port.gigabits_per_s ? fmt::format("{:g} Gb/s", *port.gigabits_per_s)
                                       : "speed not said"});
    return table.text();
}

std::string usable_text(const Machine& machine) {
    const auto usable = runtime::has_gpu_direct(machine);
    if (!usable) return "not known";
    if (!*usable) return "no";
    const runtime::GpuDirect& direct = machine.gpu_direct;
    if (!direct.peer_memory_module.empty()) return "by " + direct.peer_memory_module;
    return fmt::format("by dma-buf (kernel {}, open modules of the driver)", direct.kernel);
}

std::string iommu_text(const std::optional<bool>& translates) {
    if (!translates) return "not known";
    return *translates ? "translates" : "off, or passes addresses on";
}

std::string acs_text(const std::optional<std::vector<std::string>>& redirecting) {
    if (!redirecting) return "not known; only root may read it";
    if (redirecting->empty()) return "redirects nowhere below GPUs' root ports";
    return fmt::format("redirects at {}", fmt::join(*redirecting, ", "));
}

// Of a machine with GPUs and adapters that could use it.
std::string gpu_direct_text(const Machine& machine, const Console& console) {
    if (machine.gpus.empty() || machine.adapters.empty()) return "";
    TextTable table = two_columns();
    table.add({"usable", usable_text(machine)});
    table.add({"IOMMU", iommu_text(machine.gpu_direct.iommu_translates)});
    table.add({"PCIe ACS", acs_text(machine.gpu_direct.redirecting)});
    return console.bold("GPUDirect RDMA") + '\n' + table.text() + '\n';
}

std::string nccl_text(const Machine& machine, const Console& console) {
    if (machine.nccl_settings.empty()) return "";
    TextTable table({Align::left, Align::left, Align::left});
    for (const runtime::NcclSetting& setting : machine.nccl_settings)
        table.add({setting.name, setting.value, setting.origin});
    return console.bold("settings of NCCL") + '\n' + table.text() + '\n';
}

std::string libraries_text(const Machine& machine) {
    TextTable table({Align::left, Align::left, Align::left});
    for (const runtime::Library& library : machine.libraries) {
        std::string version = library.version.empty() ? "found" : library.version;
        if (!library.found()) version = library.problem.empty() ? "missing" : "does not load";
        table.add({library.name, version, library.used_for});
        const std::string& where = library.found() ? library.path : library.remedy;
        if (!where.empty()) table.add({"", "", where});
    }
    return table.text();
}

std::string finding_text(const runtime::Finding& finding, std::size_t columns) {
    constexpr std::size_t kIndent = 4;
    return "  - " + wrapped(finding.what, columns, kIndent, kIndent) + "\n    -> " +
           wrapped(finding.remedy, columns, kIndent + 3, kIndent + 3) + "\n";
}

std::string verdict_text(const Machine& machine, const runtime::BackendRow& backend,
                         Console& console) {
    const auto missing = backend.missing(machine);
    std::string text = console.bold(fmt::format("backend {}", backend.name)) +
                       (missing.empty() ? ": ready\n" : ": not ready\n");
    for (const runtime::Finding& finding : missing)
        text += finding_text(finding, static_cast<std::size_t>(console.columns));
    return text;
}

}  // namespace

void print_doctor(const Machine& machine, const runtime::BackendRow* asked, Console& console) {
    console.out << console.bold("host") << '\n'
                << host_text(machine) << '\n'
                << console.bold("GPUs") << '\n'
                << driver_text(machine) << '\n'
                << console.bold("network") << '\n'
                << network_text(machine) << '\n'
                << gpu_direct_text(machine, console) << nccl_text(machine, console)
                << console.bold("libraries") << '\n'
                << libraries_text(machine) << '\n';
    for (const runtime::BackendRow& backend : runtime::backends())
        if (asked == nullptr || asked == &backend)
            console.out << verdict_text(machine, backend, console);
    const auto advice = runtime::advice_for(machine);
    if (!advice.empty()) console.out << '\n' << console.bold("advice") << '\n';
    for (const runtime::Finding& finding : advice)
        console.out << finding_text(finding, static_cast<std::size_t>(console.columns));
}

}  // namespace orrery::cli
