#include <nlohmann/json.hpp>

#include "cli/run/doctor_report.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json library_json(const runtime::Library& library) {
    return {{"name", library.name},
            {"used_for", library.used_for},
            {"found", library.found()},
            {"file", library.file},
            {"path", or_null(library.path)},
            {"version", or_null(library.version)},
            {"problem", or_null(library.problem)},
            {"remedy", library.found() ? Json(nullptr) : or_null(library.remedy)}};
}

Json numa_nodes_json(const std::vector<runtime::NumaNode>& nodes) {
    Json list = Json::array();
    for (const runtime::NumaNode& node : nodes)
        list.push_back({{"node", node.number}, {"cores", runtime::cpu_list_text(node.cpus)}});
    return list;
}

Json host_json(const runtime::Machine& machine) {
    const runtime::Processor& processor = machine.processor;
    return {{"processor", processor.model},
            {"sockets", processor.sockets},
            {"cores", processor.cores},
            {"usable_cores", processor.usable},
            {"quota_cores", or_null(processor.quota)},
            {"kernels", processor.kernels},
            {"memory_bytes", machine.memory.total_bytes},
            {"available_memory_bytes", machine.memory.available_bytes},
            {"memory_limit_bytes", or_null(machine.memory.limit_bytes)},
            {"shared_memory_bytes", or_null(machine.limits.shared_memory_bytes)},
            {"locked_memory_limit_bytes", or_null(machine.limits.locked_bytes)},
            {"open_files_limit", or_null(machine.limits.open_files)},
            {"numa_nodes", numa_nodes_json(machine.numa_nodes)}};
}

Json driver_json(const runtime::Driver& driver) {
    const bool found = driver.library.found() || driver.management.found();
    return {{"found", found},
            {"version", or_null(driver.version)},
            {"cuda", driver.cuda ? Json(runtime::cuda_version_text(*driver.cuda)) : Json(nullptr)},
            {"visible_gpus", or_null(driver.visible)},
            {"problem", or_null(driver.problem)},
            {"libraries", {library_json(driver.library), library_json(driver.management)}}};
}

Json gpu_json(const runtime::Machine& machine, const runtime::Gpu& gpu) {
    Json json = {{"name", gpu.name},
                 {"memory_bytes", or_null(gpu.memory_bytes)},
                 {"compute_capability", nullptr},
                 {"clock_MHz", or_null(gpu.clock_MHz)},
                 {"most_clock_MHz", or_null(gpu.most_clock_MHz)},
                 {"memory_clock_MHz", or_null(gpu.memory_clock_MHz)},
                 {"most_memory_clock_MHz", or_null(gpu.most_memory_clock_MHz)},
                 {"power_limit_w", or_null(gpu.power_limit_w)},
                 {"default_power_limit_w", or_null(gpu.default_power_limit_w)},
                 {"ecc", or_null(gpu.ecc)},
                 {"persistence", or_null(gpu.persistence)},
                 {"partitioned", or_null(gpu.partitioned)},
                 {"nvlinks", gpu.nvlinks},
                 {"bus_id", or_null(gpu.pci.address)},
                 {"numa_node", or_null(gpu.pci.numa_node)},
                 {"cores", or_null(runtime::cpu_list_text(machine.cpus_of(gpu)))}};
    if (gpu.compute_capability) json["compute_capability"] = *gpu.compute_capability / 10.0;
    return json;
}

Json peers_json(const runtime::Machine& machine) {
    constexpr const char* kNames[] = {"self", "nvlink", "pcie", "none"};
    Json rows = Json::array();
    for (const auto& peers : machine.peers) {
        Json row = Json::array();
        for (const runtime::PeerAccess access : peers)
            row.push_back(kNames[static_cast<std::size_t>(access)]);
        rows.push_back(std::move(row));
    }
    return rows;
}

Json network_json(const runtime::Machine& machine) {
    Json ports = Json::array();
    for (const runtime::NetworkPort& port : machine.network)
        ports.push_back({{"name", port.name},
                         {"kind", port.kind},
                         {"state", port.state},
                         {"gigabits_per_s", or_null(port.gigabits_per_s)}});
    return ports;
}

Json adapters_json(const runtime::Machine& machine) {
    Json list = Json::array();
    for (const runtime::Adapter& adapter : machine.adapters) {
        Json to_gpus = Json::array();
        for (const auto& proximity : adapter.to_gpus)
            to_gpus.push_back(proximity ? Json(runtime::name(*proximity)) : Json(nullptr));
        list.push_back({{"name", adapter.name},
                        {"bus_id", or_null(adapter.pci.address)},
                        {"numa_node", or_null(adapter.pci.numa_node)},
                        {"to_gpus", std::move(to_gpus)}});
    }
    return list;
}

Json gpu_direct_json(const runtime::Machine& machine) {
    const runtime::GpuDirect& direct = machine.gpu_direct;
    return {{"usable", or_null(runtime::has_gpu_direct(machine))},
            {"peer_memory_module", or_null(direct.peer_memory_module)},
            {"dma_buf", or_null(direct.dma_buf)},
            {"open_kernel_modules", or_null(direct.open_modules)},
            {"kernel", or_null(direct.kernel)},
            {"iommu_translates", or_null(direct.iommu_translates)},
            {"acs_redirects_at", or_null(direct.redirecting)}};
}

Json findings_json(const std::vector<runtime::Finding>& findings) {
    Json list = Json::array();
    for (const runtime::Finding& finding : findings)
        list.push_back({{"what", finding.what}, {"remedy", finding.remedy}});
    return list;
}

Json backend_json(const runtime::Machine& machine, const runtime::BackendRow& backend) {
    const auto missing = backend.missing(machine);
    return {{"ready", missing.empty()}, {"missing", findings_json(missing)}};
}

}  // namespace

Json doctor_json(const runtime::Machine& machine) {
    Json json = {{"orrery", std::string(program_version())},
                 {"built_with_cuda", or_null(machine.built_with_cuda)}};
    json["host"] = host_json(machine);
    json["driver"] = driver_json(machine.driver);
    json["gpus"] = Json::array();
    for (const runtime::Gpu& gpu : machine.gpus)
        json["gpus"].push_back(gpu_json(machine, gpu));
    json["peer_access"] = peers_json(machine);
    json["network"] = network_json(machine);
    json["adapters"] = adapters_json(machine);
    json["gpu_direct"] = gpu_direct_json(machine);
    json["nccl_settings"] = Json::array();
    for (const runtime::NcclSetting& setting : machine.nccl_settings)
        json["nccl_settings"].push_back(
            {{"name", setting.name}, {"value", setting.value}, {"origin", setting.origin}});
    json["libraries"] = Json::array();
    for (const runtime::Library& library : machine.libraries)
        json["libraries"].push_back(library_json(library));
    for (const runtime::BackendRow& backend : runtime::backends())
        json["backends"][std::string(backend.name)] = backend_json(machine, backend);
    json["advice"] = findings_json(runtime::advice_for(machine));
    return json;
}

}  // namespace orrery::cli
