// cudnn_graphs_check: whether the cuDNN of this machine has an engine for each graph of attention
// that the backend builds, on GPUs that are described and need not be there, and whether what a
// plan sets aside for gradients in any order is as much as the engine asks for. One JSON line per
// graph, then a summary; exit code 0 where all have what is expected, 6 without cuDNN, else 7.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "plan/ir/kinds.hpp"
#include "runtime/cuda/cudnn_attention.hpp"
#include "tests/gpu/checks/attention.hpp"

namespace {

using namespace orrery::runtime::cuda;
namespace gpu_check = orrery::runtime::gpu_check;
using nlohmann::ordered_json;
using orrery::plan::DType;

constexpr int kNoLibrary = 6;
constexpr int kLacking = 7;

struct Device {
    const char* name;
    int version;  // compute capability × 100
    int multiprocessors;
    std::int64_t shared_bytes;  // of a block, at most
    bool is_hopper_or_later;    // has gradients of wide heads, and asks for no more than a plan has
};

// Limits of a block and a multiprocessor: CUDA C++ Programming Guide, "Compute Capabilities".
constexpr Device kDevices[] = {{"A100", 800, 108, 166912, false},
                               {"H200", 900, 132, 232448, true},
                               {"B200", 1000, 148, 232448, true}};

std::string described(const Device& device) {
    return ordered_json{{"deviceName", device.name},
                        {"deviceVer", device.version},
                        {"driverVer", 13000},
                        {"multiProcessorCount", device.multiprocessors},
                        {"maxSharedMemoryPerBlock", 49152},
                        {"maxSharedMemoryPerBlockOptin", device.shared_bytes},
                        {"reservedSharedMemoryPerBlock", 1024},
                        {"maxThreadsPerBlock", 1024},
                        {"maxThreadsPerSM", 2048},
                        {"maxCtasPerSM", 32},
                        {"maxRegistersPerSM", 65536},
                        {"regsPerBlock", 65536},
                        {"maxBlockSize", {1024, 1024, 64}},
                        {"maxGridSize", {2147483647, 65535, 65535}},
                        {"warpSize", 32},
                        {"smClockRateKHz", 1980000},
                        {"memClockRateKHz", 3201000},
                        {"l2CacheSize", 62914560},
                        {"totalGlobalMem", 80'000'000'000},
                        {"pciDeviceId", 9013},
                        {"cudaDeviceId", 0},
                        {"isTccDriver", 0},
                        {"supportCoopLaunch", 1}}
        .dump();
}

struct Case {
    const char* of;
    std::int64_t batch, sequence, heads, kv_heads, head_dim, value_dim, window = 0;
};
constexpr Case kCases[] = {{"GPT-2 124M", 16, 1024, 12, 12, 64, 64},
                           {"GPT-2 1.5B", 4, 1024, 25, 25, 64, 64},
                           {"Llama 3.2 1B", 2, 4096, 32, 8, 64, 64},
                           {"Llama 3.1 8B", 1, 8192, 32, 8, 128, 128},
                           {"one key head", 1, 2048, 16, 1, 128, 128},
                           {"gpt-oss, without sinks", 1, 4096, 64, 8, 64, 64, 128},
                           {"Mistral 7B", 1, 8192, 32, 8, 128, 128, 4096},
                           {"DeepSeek-V3", 1, 4096, 128, 128, 192, 128},
                           {"heads of 80", 2, 2048, 32, 32, 80, 80},
                           {"heads of 96", 2, 2048, 32, 32, 96, 96},
                           {"a sequence of 1,000", 2, 1000, 8, 4, 128, 128},
                           {"a sequence of 37", 1, 37, 2, 1, 8, 8},
                           {"heads of 256", 1, 2048, 16, 16, 256, 256}};

std::int64_t workspace_of(const AttentionGraphKey& key) {
    const auto room = gpu_check::sizes_of({key.batch, key.sequence, key.heads, key.kv_heads,
                                           key.head_dim, key.value_dim})
                          .room();
    return (room.elements - room.workspace) * orrery::plan::size_bytes(DType::fp32);
}

struct Summary {
    std::int64_t graphs = 0, lacking = 0, without_room = 0;

    void add(const Device& device, const CudnnDescriptor& described_as, const Case& of,
             const AttentionGraphKey& key) {
        const CudnnGraph graph = graph_of(key);
        const auto engines = engines_for(graph, {nullptr, described_as.handle()});
        ordered_json line = {{"device", device.name},
                             {"case", of.of},
                             {"pass", key.backward ? "backward" : "forward"},
                             {"dtype", orrery::plan::name(key.dtype)},
                             {"operations", graph.operations().size()},
                             {"workspace_bytes", ordered_json::array()}};
        bool has_room = !key.backward;
        for (const CudnnEngine& engine : engines) {
            line["workspace_bytes"].push_back(engine.workspace_bytes);
            has_room = has_room || engine.workspace_bytes <= workspace_of(key);
        }
        ++graphs;
        // What these devices' kernels do not have, by cuDNN's own documentation.
        const bool is_wide = key.head_dim > 128;
        const bool is_expected =
            !key.backward || !is_wide || (device.is_hopper_or_later && key.value_dim <= 128);
        if (engines.empty() && is_expected) ++lacking;
        if (!engines.empty() && !has_room && device.is_hopper_or_later) ++without_room;
        line["has_room"] = has_room && !engines.empty();
        std::cout << line.dump() << '\n';
    }
};

}  // namespace

int main() {
    if (cudnn() == nullptr) {
        std::cerr << "cudnn_graphs_check: no cuDNN that would do: see orrery doctor\n";
        return kNoLibrary;
    }
    try {
        Summary summary;
        for (const Device& device : kDevices) {
            const CudnnDescriptor described_as = described_device(described(device));
            for (const Case& of : kCases)
                for (const DType dtype : {DType::bf16, DType::fp16})
                    for (const bool backward : {false, true})
                        summary.add(device, described_as, of,
                                    {backward, dtype, of.batch, of.sequence, of.heads, of.kv_heads,
                                     of.head_dim, of.value_dim, of.window});
        }
        std::cout << ordered_json{{"summary",
                                   {{"graphs", summary.graphs},
                                    {"lacking", summary.lacking},
                                    {"without_room", summary.without_room}}}}
                         .dump()
                  << '\n';
        return summary.lacking + summary.without_room == 0 ? EXIT_SUCCESS : kLacking;
    } catch (const std::exception& error) {
        std::cerr << "cudnn_graphs_check: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
