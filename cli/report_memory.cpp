// The memory of the fullest pipeline rank at its peak, and of all in a table.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"
#include "trace/memory_over_time.hpp"

namespace orrery::cli {
namespace {

constexpr int kMemoryCells = 50;
constexpr int kTimeCells = 80;

// Each category's bar begins where the one before ends: the whole width is the capacity, or the
// peak where that is more.
std::string waterfall(const sim::StageMemory& stage, double capacity) {
    const double scale = std::max(capacity, static_cast<double>(stage.peak_bytes));
    TextTable table({Align::left, Align::right, Align::right, Align::left});
    double before = 0;
    const auto add = [&](std::string_view name, std::int64_t bytes) {
        const double amount = static_cast<double>(bytes);
        const int offset = static_cast<int>(before / scale * kMemoryCells);
        table.add({std::string(name), bytes_text(amount), percent_text(amount / capacity),
                   std::string(static_cast<std::size_t>(offset), ' ') +
                       bar_text(amount / scale, kMemoryCells)});
        before += amount;
    };
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c)
        add(plan::name(static_cast<plan::MemoryCategory>(c)), stage.bytes[c]);
    add("other", stage.other_bytes);
    const double peak = static_cast<double>(stage.peak_bytes);
    table.add({"peak", bytes_text(peak), percent_text(peak / capacity),
               bar_text(peak / scale, kMemoryCells)});
    table.add(
        {"capacity", bytes_text(capacity), "100 %", bar_text(capacity / scale, kMemoryCells)});
    return table.text();
}

std::string stages_text(const sim::MemoryPrediction& memory) {
    TextTable table({Align::right, Align::right, Align::right, Align::right, Align::right,
                     Align::right, Align::right, Align::right, Align::right, Align::left});
    const bool unlike =
        std::any_of(memory.stages.begin(), memory.stages.end(), [&](const sim::StageMemory& stage) {
            return stage.capacity_bytes != memory.capacity_bytes;
        });
    table.add({"pp", "params", "grads", "optim.", "activ.", "worksp.", "comm.", "other", "peak",
               unlike ? "of, at" : "at"});
    for (std::size_t i = 0; i < memory.stages.size(); ++i) {
        const sim::StageMemory& stage = memory.stages[i];
        std::vector<std::string> row = {std::to_string(i)};
        for (const std::int64_t bytes : stage.bytes)
            row.push_back(bytes_text(static_cast<double>(bytes)));
        row.push_back(bytes_text(static_cast<double>(stage.other_bytes)));
        row.push_back(bytes_text(static_cast<double>(stage.peak_bytes)));
        const auto capacity = static_cast<double>(stage.capacity_bytes);
        row.push_back((unlike ? bytes_text(capacity) + ", " : "") + stage.peak_at);
        table.add(std::move(row));
    }
    return table.text();
}

// The height of each slice of the step is its live memory, eighths of the largest.
std::string over_time_text(const trace::Trace& trace, std::ptrdiff_t pipeline_rank) {
    const auto track =
        std::find_if(trace.tracks.begin(), trace.tracks.end(), [&](const trace::Track& candidate) {
            return trace.programs[static_cast<std::size_t>(candidate.program)].pipeline_rank ==
                   pipeline_rank;
        });
    if (track == trace.tracks.end()) return "";
    constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const auto live = trace::memory_over_time(trace, *track, kTimeCells);
    const auto [least, most] = std::minmax_element(live.begin(), live.end());
    std::string line;
    for (const std::int64_t bytes : live)
        line +=
            kHeights[static_cast<std::size_t>((bytes * 8 - 1) / std::max<std::int64_t>(1, *most))];
    return labelled("over time", line) +
           labelled("", fmt::format("from {} to {} of the plan's memory alive during the step",
                                    bytes_text(static_cast<double>(*least)),
                                    bytes_text(static_cast<double>(*most))));
}

// "8 ranks keep 1.2 TB in host memory, a node has 2 TB"
std::string node_text(const sim::NodeMemory& node, const char* where) {
    if (node.bytes == 0) return "";
    return labelled(
        where, fmt::format("{} ranks of a node × {} on average = {}, a node has {}{}", node.ranks,
                           bytes_text(static_cast<double>(node.bytes / node.ranks)),
                           bytes_text(static_cast<double>(node.bytes)),
                           bytes_text(static_cast<double>(node.capacity_bytes)),
                           node.exceeded() ? ": too little" : ""));
}

const char* fit_words(sim::Verdict verdict) {
    if (verdict == sim::Verdict::fits) return "fits";
    return verdict == sim::Verdict::tight ? "fits tightly" : "does not fit";
}

std::string verdict_text(const sim::MemoryPrediction& memory) {
    const bool tight = memory.verdict == sim::Verdict::tight;
    return fmt::format("{}; probability that it fits: {}",
                       tight ? "fits, but it is tight" : fit_words(memory.verdict),
                       percent_text(memory.fit_probability));
}

// "megatron, nemo: 87.4 GB, does not fit (27.5 %)": stacks that need the same in one line.
std::string stacks_in_use_text(const std::vector<sim::StackNeed>& stacks) {
    std::vector<std::string> names, lines;  // of each line
    for (const sim::StackNeed& need : stacks) {
        const std::string line =
            need.lacks.empty()
                ? fmt::format("{}, {} ({})", bytes_text(static_cast<double>(need.peak_bytes)),
                              fit_words(need.verdict), percent_text(need.fit_probability))
                : "has no " + need.lacks;
        const auto same = std::find(lines.begin(), lines.end(), line);
        if (same == lines.end()) {
            names.push_back(need.stack);
            lines.push_back(line);
        } else {
            names[static_cast<std::size_t>(same - lines.begin())] += ", " + need.stack;
        }
    }
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i)
        text += labelled(i == 0 ? "elsewhere" : "", names[i] + ": " + lines[i]);
    return text;
}

}  // namespace

std::string memory_text(const ReportInput& input, const Console& console) {
    const sim::MemoryPrediction& memory = input.prediction.memory;
    const sim::StageMemory& worst = memory.worst();
    const auto rank = &worst - memory.stages.data();
    std::string text =
        heading(memory.stages.size() > 1
                    ? fmt::format("memory of pipeline rank {}, the fullest, at its peak: {}", rank,
                                  worst.peak_at)
                    : fmt::format("memory at its peak: {}", worst.peak_at),
                console);
    text += waterfall(worst, static_cast<double>(memory.capacity_bytes));
    text += over_time_text(input.prediction.trace, rank);
    text += node_text(memory.host, "host") + node_text(memory.disk, "disk");
    text += labelled("verdict", console.bold(verdict_text(memory)));
    text += stacks_in_use_text(input.stacks);
    text += labelled("source", memory.capacity_source);
    if (memory.stages.size() > 1)
        text += heading("memory by pipeline rank (pp)", console) + stages_text(memory);
    return text;
}

}  // namespace orrery::cli
