// Rules of the rank grid, the batch and the pipeline.
#include <fmt/format.h>

#include <numeric>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kFewChoices = 4;

// Ranks of one model copy.
std::int64_t copy_ranks(const Layout& layout) {
    return layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
}

std::string devices_text(const Cluster& cluster) {
    return fmt::format("nodes × devices_per_node = {} × {} = {} devices", cluster.nodes,
                       cluster.devices_per_node, cluster.devices());
}

std::int64_t nodes_for(std::int64_t ranks, const Cluster& cluster) {
    return (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node;
}

void report_copy_too_large(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Cluster& cluster = scenario.cluster;
    const bool tensor_alone = layout.tensor_parallel > cluster.devices();
    Diagnostic& fault = reading.report_field(
        "S015", tensor_alone ? "layout.tensor_parallel" : "layout.pipeline_parallel",
        "one copy of the model has more ranks than the cluster has devices");
    fault.arithmetic = fmt::format("tensor_parallel × pipeline_parallel = {} × {} = {} ranks\n{}",
                                   layout.tensor_parallel, layout.pipeline_parallel,
                                   copy_ranks(layout), devices_text(cluster));
    if (!tensor_alone) {
        fault.help.push_back(fmt::format("pipeline_parallel of at most {} with tensor_parallel {}",
                                         cluster.devices() / layout.tensor_parallel,
                                         layout.tensor_parallel));
    }
    if (layout.pipeline_parallel <= cluster.devices()) {
        fault.help.push_back(fmt::format("tensor_parallel of at most {} with pipeline_parallel {}",
                                         cluster.devices() / layout.pipeline_parallel,
                                         layout.pipeline_parallel));
    }
    fault.help.push_back(
        fmt::format("cluster.nodes of at least {}", nodes_for(copy_ranks(layout), cluster)));
    reading.mark_bad(reading.pointer_of("layout.data_parallel"));
}

}  // namespace

void check_ranks(Reading& reading, const LayoutChoices& choices, Scenario& scenario) {
    if (!reading.good({"cluster.nodes", "cluster.devices_per_node", "layout.tensor_parallel",
                       "layout.context_parallel", "layout.pipeline_parallel"})) {
        // What "auto" would take cannot be said.
        if (choices.data_parallel_auto) {
            reading.mark_bad(reading.pointer_of("layout.data_parallel"));
        }
        return;
    }
    Layout& layout = scenario.layout;
    const std::int64_t devices = scenario.cluster.devices();
    const std::int64_t copies = devices / copy_ranks(layout);
    if (copies == 0) return report_copy_too_large(reading, scenario);
    if (choices.data_parallel_auto) layout.data_parallel = copies;
    if (!reading.good({"layout.data_parallel"}) || layout.data_parallel <= copies) return;
    Diagnostic& fault = reading.report_field(
        "S015", "layout.data_parallel", "the layout has more ranks than the cluster has devices");
    fault.arithmetic = fmt::format(
        "tensor_parallel × pipeline_parallel × data_parallel = {} × {} × {} = {} ranks\n{}",
        layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel, layout.ranks(),
        devices_text(scenario.cluster));
    fault.help.push_back(
        fmt::format("data_parallel of at most {}, or \"auto\" to take what is left", copies));
    fault.help.push_back(
        fmt::format("cluster.nodes of at least {}", nodes_for(layout.ranks(), scenario.cluster)));
}

void check_batch(Reading& reading, const LayoutChoices& choices, const Scenario& scenario) {
    if (!reading.good(
            {"layout.data_parallel", "layout.micro_batch_size", "layout.global_batch_size"})) {
        return;
    }
    const Layout& layout = scenario.layout;
    const std::int64_t data = layout.data_parallel;
    const std::int64_t micro = layout.micro_batch_size;
    const std::int64_t batch = layout.global_batch_size;
    const std::int64_t unit = data * micro;
    if (batch % unit == 0) return;
    Diagnostic& fault = reading.report_field(
        "S016", "layout.global_batch_size",
        "the global batch does not split into whole micro-batches on every data-parallel rank");
    fault.arithmetic = fmt::format(
        "global_batch_size / (data_parallel × micro_batch_size) = {} / ({} × {}) = {} "
        "micro-batches",
        batch, data, micro, quotient(batch, unit));
    if (choices.data_parallel_auto) {
        fault.note =
            fmt::format("data_parallel is \"auto\": {} devices / {} ranks of one copy = {}",
                        scenario.cluster.devices(), copy_ranks(layout), data);
    }
    const std::int64_t below = batch / unit * unit;
    fault.help.push_back("global_batch_size: " +
                         choices_near(batch, below > 0
                                                 ? std::vector<std::int64_t>{below, below + unit}
                                                 : std::vector<std::int64_t>{unit}));
    if (batch % micro == 0) {
        const std::int64_t most = reading.good({"cluster.nodes", "cluster.devices_per_node"})
                                      ? scenario.cluster.devices() / copy_ranks(layout)
                                      : data;
        fault.help.push_back("or data_parallel: " +
                             choices_near(data, divisors(batch / micro, most), kFewChoices));
    }
    if (batch % data == 0) {
        fault.help.push_back("or micro_batch_size: " +
                             choices_near(micro, divisors(batch / data, batch), kFewChoices));
    }
}

namespace {

// Pipeline degrees that divide the layers with this many virtual stages, and fit the cluster.
std::vector<std::int64_t> fitting_degrees(const Reading& reading, const Scenario& scenario,
                                          std::int64_t virtual_stages) {
    const Layout& layout = scenario.layout;
    if (scenario.model.layers % virtual_stages != 0) return {};
    const bool known =
        reading.good({"cluster.nodes", "cluster.devices_per_node", "layout.tensor_parallel"});
    const std::int64_t most =
        known ? scenario.cluster.devices() / layout.tensor_parallel : scenario.model.layers;
    std::vector<std::int64_t> out = divisors(scenario.model.layers / virtual_stages, most);
    if (virtual_stages > 1 && !out.empty())
        out.erase(out.begin());  // interleaving needs a pipeline
    return out;
}

void report_uneven(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const std::int64_t layers = scenario.model.layers;
    const std::int64_t stages = layout.stages();
    Diagnostic& fault = reading.report_field("S012", "layout.pipeline_parallel",
                                             "the layers do not split evenly over the pipeline");
    fault.arithmetic = fmt::format(
        "{} / (pipeline_parallel × virtual_pipeline) = {} / ({} × {}) = {} layers per stage",
        reading.shown("model.layers"), layers, layout.pipeline_parallel, layout.virtual_pipeline,
        quotient(layers, stages));
    if (layers > stages) {
        fault.note = fmt::format(
            "rounding down would silently train a model of {} layers "
            "(see NVIDIA/Megatron-LM#468)",
            layers / stages * stages);
    }
    const std::string degrees = choices_near(
        layout.pipeline_parallel, fitting_degrees(reading, scenario, layout.virtual_pipeline));
    if (!degrees.empty()) {
        fault.help.push_back(
            fmt::format("pipeline_parallel: {}{}", degrees,
                        layout.virtual_pipeline == 1
                            ? ""
                            : fmt::format(" with virtual_pipeline {}", layout.virtual_pipeline)));
    }
    if (layout.virtual_pipeline > 1 && layers % layout.pipeline_parallel == 0) {
        std::vector<std::int64_t> chunks = divisors(layers / layout.pipeline_parallel, layers);
        chunks.erase(chunks.begin());  // a single chunk is not interleaved
        if (!chunks.empty()) {
            fault.help.push_back(fmt::format("or virtual_pipeline: {} with pipeline_parallel {}",
                                             choices_near(layout.virtual_pipeline, chunks),
                                             layout.pipeline_parallel));
        }
    }
    if (layers >= stages) {
        fault.help.push_back(fmt::format(
            "or layers_per_stage as an array of {} counts that sum to {}", stages, layers));
    }
    reading.mark_bad("/layout/layers_per_stage");
}

}  // namespace

void check_stages(Reading& reading, const LayoutChoices& choices, Scenario& scenario) {
    Layout& layout = scenario.layout;
    if (!reading.good({"layout.pipeline_parallel", "layout.virtual_pipeline", "model.layers",
                       "layout.layers_per_stage"})) {
        return;
    }
    const std::int64_t stages = layout.stages();
    const std::int64_t layers = scenario.model.layers;
    if (choices.layers_even) {
        if (layers % stages != 0) return report_uneven(reading, scenario);
        layout.layers_per_stage.assign(static_cast<std::size_t>(stages), layers / stages);
        return;
    }
    const std::int64_t given = static_cast<std::int64_t>(layout.layers_per_stage.size());
    const std::int64_t sum = std::accumulate(layout.layers_per_stage.begin(),
                                             layout.layers_per_stage.end(), std::int64_t{0});
    if (given != stages) {
        reading
            .report_field("S013", "layout.layers_per_stage",
                          "layers_per_stage does not have one count for each stage")
            .arithmetic =
            fmt::format("{} counts, pipeline_parallel × virtual_pipeline = {} × {} = {} stages",
                        given, layout.pipeline_parallel, layout.virtual_pipeline, stages);
    } else if (sum != layers) {
        Diagnostic& fault =
            reading.report_field("S013", "layout.layers_per_stage",
                                 "layers_per_stage does not add up to the layers of the model");
        fault.arithmetic = fmt::format("the {} counts sum to {}, {} = {}", given, sum,
                                       reading.shown("model.layers"), layers);
        fault.help.push_back(sum < layers ? fmt::format("{} more", layers - sum)
                                          : fmt::format("{} fewer", sum - layers));
    }
}

void check_schedule(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!reading.good({"layout.schedule", "layout.virtual_pipeline"})) return;
    const bool chunked = find_schedule(layout.schedule)->needs_virtual_stages;
    if (!chunked && layout.virtual_pipeline > 1) {
        Diagnostic& fault = reading.report_field(
            "S017", "layout.virtual_pipeline",
            fmt::format("the schedule \"{}\" has no virtual stages", layout.schedule));
        for (const ScheduleKind& kind : schedule_kinds()) {
            if (!kind.needs_virtual_stages) continue;
            fault.help.push_back(
                fmt::format("\"schedule\": \"{}\", or virtual_pipeline 1", kind.name));
        }
        return;
    }
    if (!chunked) return;
    if (layout.virtual_pipeline < 2) {
        reading
            .report_field("S017", "layout.virtual_pipeline",
                          fmt::format("the schedule \"{}\" needs virtual stages", layout.schedule))
            .help.push_back("virtual_pipeline of at least 2, or \"schedule\": \"1f1b\"");
    }
    if (!reading.good({"layout.pipeline_parallel"})) return;
    if (layout.pipeline_parallel < 2) {
        reading
            .report_field("S017", "layout.pipeline_parallel",
                          fmt::format("the schedule \"{}\" needs a pipeline", layout.schedule))
            .help.push_back("pipeline_parallel of at least 2, or \"schedule\": \"1f1b\"");
        return;
    }
    if (!reading.good(
            {"layout.global_batch_size", "layout.micro_batch_size", "layout.data_parallel"})) {
        return;
    }
    const std::int64_t rows = layout.pipeline_parallel;
    const std::int64_t micro_batches = layout.micro_batches();
    if (micro_batches % rows == 0) return;
    Diagnostic& fault = reading.report_field(
        "S018", "layout.global_batch_size",
        fmt::format("the schedule \"{}\" needs a number of micro-batches that the pipeline divides",
                    layout.schedule));
    fault.arithmetic = fmt::format(
        "micro-batches = global_batch_size / (data_parallel × micro_batch_size) = {} / ({} × {}) = "
        "{}"
        "\n{} / pipeline_parallel = {} / {} = {}",
        layout.global_batch_size, layout.data_parallel, layout.micro_batch_size, micro_batches,
        "micro-batches", micro_batches, rows, quotient(micro_batches, rows));
    const std::int64_t unit = layout.data_parallel * layout.micro_batch_size * rows;
    const std::int64_t below = layout.global_batch_size / unit * unit;
    fault.help.push_back("global_batch_size: " + (below > 0
                                                      ? fmt::format("{} or {}", below, below + unit)
                                                      : std::to_string(unit)));
}

}  // namespace orrery::plan
