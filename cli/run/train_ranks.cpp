#include "cli/run/train_ranks.hpp"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kMostHints = 3;

std::string processes_text(std::int64_t count) {
    return fmt::format("{} process{}", count, count == 1 ? " was" : "es were");
}

// The layout's ranks as a product.
std::string product_text(const plan::Layout& layout) {
    return fmt::format("tensor {} x context {} x data {} x pipeline {} = {}",
                       layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                       layout.pipeline_parallel, layout.ranks());
}

struct Dimension {
    const char* key;
    std::int64_t size;
};

std::vector<Dimension> dimensions_of(const plan::Layout& layout) {
    return {{"data_parallel", layout.data_parallel},
            {"tensor_parallel", layout.tensor_parallel},
            {"pipeline_parallel", layout.pipeline_parallel},
            {"context_parallel", layout.context_parallel}};
}

// Settings of one key with which the scenario is valid and has so many ranks.
std::vector<std::string> layouts_of(std::int64_t ranks, const plan::Layout& layout,
                                    const ScenarioInput& input) {
    std::vector<std::string> found;
    for (const Dimension& dimension : dimensions_of(layout)) {
        const std::int64_t others = layout.ranks() / dimension.size;
        if (ranks % others != 0) continue;
        const std::string set = fmt::format("layout.{}={}", dimension.key, ranks / others);
        const auto scenario = input.read_with({set});
        if (scenario && scenario->layout.ranks() == ranks) found.push_back("--set " + set);
        if (found.size() == kMostHints) break;
    }
    return found;
}

// The nearest number of data-parallel ranks below and above, with which the scenario is valid.
std::vector<std::string> near_layouts(std::int64_t ranks, const plan::Layout& layout,
                                      const ScenarioInput& input) {
    constexpr std::int64_t kTried = 16;
    const std::int64_t others = layout.ranks() / layout.data_parallel;
    std::vector<std::string> found;
    const auto try_from = [&](std::int64_t first, std::int64_t step) {
        std::int64_t data = first;
        for (int tried = 0; tried < kTried && data >= 1; ++tried, data += step) {
            const std::string set = fmt::format("layout.data_parallel={}", data);
            if (!input.read_with({set})) continue;
            found.push_back(fmt::format("{} processes with --set {}", data * others, set));
            return;
        }
    };
    try_from(ranks / others, -1);
    try_from(ranks / others + 1, 1);
    return found;
}

}  // namespace

void require_a_process_per_rank(const runtime::Launch& launch, const plan::Scenario& scenario,
                                const ScenarioInput& input) {
    const plan::Layout& layout = scenario.layout;
    if (launch.size == layout.ranks()) return;
    std::string text = fmt::format("{} started by {}, and the layout has {} ranks: {}",
                                   processes_text(launch.size), runtime::name(launch.launcher),
                                   layout.ranks(), product_text(layout));
    if (launch.rank > 0)
        throw UsageError(fmt::format("rank {}: {} (rank 0 says more)", launch.rank, text));
    text += fmt::format("\n  start {} processes", layout.ranks());
    const auto hints = layouts_of(launch.size, layout, input);
    if (!hints.empty())
        text += fmt::format(", or give the layout {} rank{}: {}", launch.size,
                            launch.size == 1 ? "" : "s", fmt::join(hints, ", or "));
    else if (const auto near = near_layouts(launch.size, layout, input); !near.empty())
        text += fmt::format(", or {}", fmt::join(near, ", or "));
    text += fmt::format("\n  --launcher none trains all {} ranks in one process, as threads",
                        layout.ranks());
    throw UsageError(text);
}

std::string ranks_line(const runtime::Launch& launch, const runtime::ProcessWorld& world,
                       const runtime::CallTimeouts& timeouts) {
    const std::size_t nodes =
        std::set<std::string>(world.hosts().begin(), world.hosts().end()).size();
    std::string line =
        fmt::format("{} process{}, started by {}, on {} node{}; messages go over {}", launch.size,
                    launch.size == 1 ? "" : "es", runtime::name(launch.launcher), nodes,
                    nodes == 1 ? "" : "s", world.carrier());
    const std::chrono::duration<double> usual(timeouts.usual);
    line += timeouts.expected_s.empty()
                ? fmt::format("; a call that waits {} s for other ranks ends the run (--timeout)",
                              usual.count())
                : fmt::format(
                      "; a call that waits {} times as long for other ranks as --expect "
                      "says, and at least {} s, ends the run; others after {} s",
                      timeouts.factor, std::chrono::duration<double>(timeouts.least).count(),
                      usual.count());
    return line;
}

std::string flight_folder(const BackendOptions& options, const plan::Scenario& scenario) {
    if (!options.flight_record.empty()) return options.flight_record;
    return (std::filesystem::path(scenario.run.checkpoint_path).parent_path() / "flight-record")
        .string();
}

std::unique_ptr<runtime::FlightRecords> flight_records(const BackendOptions& options,
                                                       const plan::Scenario& scenario) {
    return std::make_unique<runtime::FlightRecords>(flight_folder(options, scenario),
                                                    say_of_run(options));
}

SayOfRun say_of_run(const BackendOptions& options) {
    return [command = options.command](const std::string& line) {
        const std::string text = fmt::format("orrery {}: {}\n", command, line);
        if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody to tell
    };
}

void end_process(std::int64_t rank, runtime::FlightRecords* records, const SayOfRun& say,
                 const std::string& reason) {
    const std::string busy = records != nullptr ? records->unfinished() : "";
    say(fmt::format("rank {} was busy with {}: {}", rank, busy.empty() ? "no op" : busy, reason));
    if (records != nullptr) records->write_failure(reason);
    _exit(kExitDevice);
}

}  // namespace orrery::cli
