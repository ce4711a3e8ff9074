#include "cli/run/calibrate_ranks.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "calib/measure/machine.hpp"
#include "cli/run/train_ranks.hpp"
#include "cli/subcommand.hpp"
#include "runtime/backends/registry.hpp"
#include "runtime/launch/spawn_ranks.hpp"
#include "runtime/machine/gpu_monitor.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::cli {
namespace {

constexpr double kMostSeconds = 120;
constexpr std::int64_t kLargest = std::int64_t{8} << 30;  // bytes, as nccl-tests is mostly run
constexpr std::int64_t kLargestOfHost = 64 << 20;
constexpr std::int64_t kBesideProducts = 256 << 20;

std::unique_ptr<runtime::Backend> backend_of_ranks(const BackendOptions& options,
                                                   std::int64_t ranks, Console& console) {
    runtime::BackendRequest request;
    request.launch = launched_rank(options);
    request.ranks_per_device = options.ranks_per_gpu;
    request.ranks_here = request.launch ? request.launch->local_size : ranks;
    request.bind = plan::BindTo::automatic;
    request.time_ops = true;
    request.settings = [&console](const std::string& line) { console.err << line << '\n'; };
    const SayOfRun say = say_of_run(options);
    request.waiting = say;
    request.failed = say;
    if (request.launch)
        request.overdue = [rank = request.launch->rank, say](const std::string& reason) {
            end_process(rank, nullptr, say, reason);
        };
    return runtime::backend_named(options.backend).make(request);
}

std::optional<measure::CollectiveTimings> time_ranks(const BackendOptions& options,
                                                     std::int64_t ranks,
                                                     const measure::CollectiveGrid& grid,
                                                     const measure::DescribeDevice& describe,
                                                     Console& console) {
    const auto backend = backend_of_ranks(options, ranks, console);
    const auto now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    return measure::time_collectives(ranks, *backend, grid, now, describe,
                                     [&](const std::string& what) {
                                         console.err << "timing " << what << '\n' << std::flush;
                                     });
}

// What fits twice into two fifths of a device's memory that so many ranks share.
std::int64_t largest_collective(std::int64_t device_bytes, std::int64_t sharing) {
    std::int64_t bytes = kLargest;
    while (bytes > 8 && 5 * bytes > 2 * device_bytes / std::max<std::int64_t>(1, sharing))
        bytes /= 2;
    return bytes;
}

}  // namespace

std::int64_t ranks_of_calibration(const std::optional<runtime::Launch>& launch,
                                  std::int64_t asked) {
    if (!launch) return std::max<std::int64_t>(1, asked);
    if (asked > 0 && asked != launch->size)
        throw UsageError(fmt::format("--ranks {}: {} has started {}; leave --ranks out", asked,
                                     runtime::name(launch->launcher), launch->size));
    return launch->size;
}

int start_ranks_of_calibration(const BackendOptions& options, std::int64_t ranks) {
    return runtime::spawn_ranks(ranks, runtime::own_arguments(), [&](std::int64_t rank) {
        return runtime::variables_of_shared_gpu(rank, options.ranks_per_gpu);
    });
}

std::optional<measure::CollectivesOfRanks> time_ranks_of_gpus(const BackendOptions& options,
                                                              std::int64_t ranks,
                                                              runtime::LibraryLoader& loader,
                                                              const measure::DeviceOptions& device,
                                                              Console& console) {
    const auto launch = launched_rank(options);
    const int sharing = std::max(1, options.ranks_per_gpu);
    // A launcher may show each process its own alone.
    auto gpu =
        runtime::visible_gpu(loader, launch ? static_cast<int>(launch->local_rank) / sharing : 0);
    if (!gpu) gpu = runtime::visible_gpu(loader, 0);
    if (!gpu)
        throw runtime::DeviceError(
            "the driver (libcuda.so.1) does not tell what this rank's GPU is; see orrery doctor");
    measure::CollectivesOfRanks found;
    found.devices_shared = sharing > 1;
    found.grid.most_bytes = largest_collective(gpu->memory_bytes, sharing);
    found.grid.seconds = std::min(kMostSeconds, device.seconds / 4);
    found.grid.product_size = device.kernels.sustained_size;
    found.grid.overlap_bytes = kBesideProducts;
    found.grid.workspace_bytes = static_cast<std::int64_t>(plan::Framework().workspace_mb * 1e6);
    auto timings = time_ranks(
        options, ranks, found.grid, [&] { return gpu->bus_id + " " + gpu->name; }, console);
    if (!timings) return std::nullopt;
    found.timings = *std::move(timings);
    runtime::Machine facts;
    facts.libraries = runtime::inspect_libraries(loader);
    found.library = facts.library("NCCL").version;
    return found;
}

measure::CollectiveTimings time_ranks_of_host(const BackendOptions& options, std::int64_t ranks,
                                              Console& console) {
    measure::CollectiveGrid grid;
    grid.most_bytes = kLargestOfHost;
    grid.product_size = 0;
    const std::string processor = measure::this_machine().processor;
    return *time_ranks(
        options, ranks, grid, [&] { return "host " + processor; }, console);
}

}  // namespace orrery::cli
