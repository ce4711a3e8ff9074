// Rules of the rank grid and the batch.
#include <fmt/format.h>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kFewDegrees = 4;

// Ranks of one model copy.
std::int64_t copy_ranks(const Layout& layout) {
    return layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
}

// "tensor_parallel × pipeline_parallel = 8 × 4"; context-parallel ranks where there are several.
std::string degrees_text(const Layout& layout, bool copies) {
    std::string names = "tensor_parallel", numbers = std::to_string(layout.tensor_parallel);
    const auto times = [&](const char* name, std::int64_t degree) {
        names += fmt::format(" × {}", name);
        numbers += fmt::format(" × {}", degree);
    };
    if (layout.context_parallel > 1) times("context_parallel", layout.context_parallel);
    times("pipeline_parallel", layout.pipeline_parallel);
    if (copies) times("data_parallel", layout.data_parallel);
    return names + " = " + numbers;
}

std::string devices_text(const Cluster& cluster) {
    return fmt::format("nodes × devices_per_node = {} × {} = {} devices", cluster.all_nodes(),
                       cluster.devices_per_node, cluster.devices());
}

// Of its own kind.
std::int64_t nodes_for(std::int64_t ranks, const Cluster& cluster) {
    return (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node + cluster.nodes -
           cluster.all_nodes();
}

void report_copy_too_large(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Cluster& cluster = scenario.cluster;
    const bool tensor_alone = layout.tensor_parallel > cluster.devices();
    Diagnostic& fault = reading.report_field(
        "S015", tensor_alone ? "layout.tensor_parallel" : "layout.pipeline_parallel",
        "one copy of the model has more ranks than the cluster has devices");
    fault.arithmetic = fmt::format("{} = {} ranks\n{}", degrees_text(layout, false),
                                   copy_ranks(layout), devices_text(cluster));
    const std::int64_t context = layout.context_parallel;
    const std::string in_context =
        context > 1 ? fmt::format(" and context_parallel {}", context) : "";
    const auto at_most = [&](const char* name, const char* beside, std::int64_t degree) {
        const std::int64_t most = cluster.devices() / (degree * context);
        if (most == 0) return;
        fault.help.push_back(
            fmt::format("{} of at most {} with {} {}{}", name, most, beside, degree, in_context));
    };
    if (!tensor_alone) at_most("pipeline_parallel", "tensor_parallel", layout.tensor_parallel);
    at_most("tensor_parallel", "pipeline_parallel", layout.pipeline_parallel);
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
    fault.arithmetic = fmt::format("{} = {} ranks\n{}", degrees_text(layout, true), layout.ranks(),
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
    if (!reading.explains) return;
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
                             choices_near(data, divisors(batch / micro, most), kFewDegrees));
    }
    if (batch % data == 0) {
        fault.help.push_back("or micro_batch_size: " +
                             choices_near(micro, divisors(batch / data, batch), kFewDegrees));
    }
}

}  // namespace orrery::plan
