#include "cli/scenario_lines.hpp"

#include <fmt/format.h>

#include <vector>

#include "cli/quantity.hpp"

namespace orrery::cli {
namespace {

std::string recompute_text(const plan::Layout& layout) {
    switch (layout.recompute) {
        case plan::Recompute::none:
            return "no recomputation";
        case plan::Recompute::selective:
            return "selective recomputation";
        case plan::Recompute::selective_op:
            return "recomputation of every second product";
        case plan::Recompute::selective_layer:
            return fmt::format("recomputation of one layer in {}", layout.recompute_every);
        case plan::Recompute::full:
            return "full recomputation";
        case plan::Recompute::every_k:
            return layout.recompute_every == 0 ? "recomputation in groups of √(layers of a stage)"
                                               : fmt::format("recomputation in groups of {} layers",
                                                             layout.recompute_every);
    }
    return "";
}

// "; layers per stage 0, 126 x 1, 0", where stages differ.
std::string stages_text(const plan::Layout& layout) {
    const std::vector<std::int64_t>& counts = layout.layers_per_stage;
    std::string text;
    for (std::size_t i = 0, end = 0; i < counts.size(); i = end) {
        while (end < counts.size() && counts[end] == counts[i])
            ++end;
        if (i == 0 && end == counts.size()) return "";
        const std::string count = std::to_string(counts[i]);
        text += (text.empty() ? "; layers per stage " : ", ") +
                (end - i > 1 ? fmt::format("{} x {}", end - i, count) : count);
    }
    return text;
}

}  // namespace

std::string devices_line(const plan::Cluster& cluster, std::int64_t first) {
    const std::vector<std::int64_t> counts = cluster.devices_by_kind(first);
    std::string line;
    for (std::size_t kind = 0; kind < counts.size(); ++kind)
        if (counts[kind] > 0)
            line += fmt::format("{}{} {}", line.empty() ? "" : " + ", whole_text(counts[kind]),
                                cluster.node_kind(kind).device);
    return line;
}

std::string cluster_line(const plan::Cluster& cluster) {
    std::string line;
    for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind) {
        const plan::Cluster& of = cluster.node_kind(kind);
        line += fmt::format("{}{}{} {} of {} x {}", line.empty() ? "" : " + ",
                            of.name.empty() ? "" : of.name + ": ", whole_text(of.nodes),
                            of.nodes == 1 ? "node" : "nodes", of.devices_per_node, of.device);
    }
    return line;
}

std::string layout_line(const plan::Layout& layout) {
    std::string text = fmt::format("tensor {} x pipeline {} x data {}", layout.tensor_parallel,
                                   layout.pipeline_parallel, layout.data_parallel);
    if (layout.context_parallel > 1)
        text += fmt::format(" x context {} ({})", layout.context_parallel,
                            plan::name(layout.context_algorithm));
    if (layout.expert_parallel > 1)
        text += fmt::format(", experts over {} ranks", layout.expert_parallel);
    if (layout.expert_tensor_parallel > 1)
        text += fmt::format(", experts' matrices over {} ranks", layout.expert_tensor_parallel);
    if (layout.virtual_pipeline > 1)
        text += fmt::format(", {} stages per rank", layout.virtual_pipeline);
    if (layout.pipeline_parallel > 1) text += ", " + layout.schedule;
    if (layout.sequence_parallel) text += ", sequence parallel";
    text += fmt::format(", ZeRO-{}", layout.zero_stage);
    if (layout.zero_ranks() > 1 && layout.zero_ranks() < layout.data_ranks())
        text +=
            fmt::format(" within {} of {} data ranks", layout.zero_ranks(), layout.data_ranks());
    if (!layout.reshard_after_forward) text += " without resharding after forward";
    if (layout.data_parallel_mode == plan::DataParallelMode::parameter_server)
        text += fmt::format(", parameter server with staleness {}", layout.staleness);
    if (layout.optimizer_post_validation) text += ", optimizer validated later";
    return text + ", " + recompute_text(layout) + stages_text(layout);
}

std::string precision_text(const plan::Training& training) {
    std::string text(plan::name(training.precision));
    if (training.fp8.on()) text += fmt::format(" ({})", plan::name(training.fp8.recipe));
    if (training.precision != plan::Precision::fp16) return text;
    if (training.loss_scale == 0) return text + " with dynamic loss scale";
    return text + " with loss scale " + digits_text(training.loss_scale);
}

std::string batch_line(const plan::Scenario& scenario) {
    const plan::Layout& layout = scenario.layout;
    return fmt::format("{} sequences of {} tokens = data {} x {} micro-batches of {}",
                       whole_text(layout.global_batch_size),
                       whole_text(scenario.training.sequence_length), layout.data_parallel,
                       whole_text(layout.micro_batches()), layout.micro_batch_size);
}

}  // namespace orrery::cli
