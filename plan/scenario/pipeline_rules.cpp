// Rules of the pipeline: layers over stages, virtual stages, micro-batches over the schedule.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
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

// The embedding makes a stage of the first one, the head of the last one; one without any work is
// none.
void report_empty_stages(Reading& reading, const Layout& layout) {
    const std::vector<std::int64_t>& counts = layout.layers_per_stage;
    for (std::size_t i = 1; i + 1 < counts.size(); ++i) {
        if (counts[i] > 0) continue;
        reading
            .report("S007", "/layout/layers_per_stage/" + std::to_string(i),
                    fmt::format("stage {} has nothing to do", i))
            .help.push_back(
                "only the first stage, with the embedding, and the last, with the head, may have 0 "
                "layers");
        reading.mark_bad("/layout/layers_per_stage");
    }
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
    } else {
        report_empty_stages(reading, layout);
    }
}

// A group lies within a stage; one layer in k there is only in a model of as many.
void check_groups_of_layers(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!reading.good({"layout.recompute", "layout.recompute_every", "layout.layers_per_stage",
                       "layout.pipeline_parallel", "layout.virtual_pipeline", "model.layers"}) ||
        layout.layers_per_stage.empty())
        return;
    const bool groups = layout.recompute == Recompute::every_k;
    const std::int64_t most =
        groups ? *std::max_element(layout.layers_per_stage.begin(), layout.layers_per_stage.end())
               : scenario.model.layers;
    if (layout.recompute_every <= most) return;
    Diagnostic& fault = reading.report_field(
        "S029", "layout.recompute_every",
        groups ? "no stage has as many layers as a group" : "the model has fewer layers than that");
    fault.arithmetic =
        fmt::format("recompute_every = {}, layers of the {} = {}", layout.recompute_every,
                    groups ? "largest stage" : "model", most);
    fault.help.push_back(
        fmt::format("recompute_every of at most {}{}", most, groups ? ", or \"sqrt\"" : ""));
}

namespace {

std::string micro_batches_shown(const Layout& layout) {
    return fmt::format(
        "micro-batches = global_batch_size / (data_parallel × micro_batch_size) = {} / ({} × {}) = "
        "{}",
        layout.global_batch_size, layout.data_parallel, layout.micro_batch_size,
        layout.micro_batches());
}

// Interleaving runs micro-batches in groups of as many as there are pipeline ranks.
void check_groups(Reading& reading, const Layout& layout) {
    const std::int64_t rows = layout.pipeline_parallel;
    const std::int64_t micro_batches = layout.micro_batches();
    if (micro_batches % rows == 0) return;
    Diagnostic& fault = reading.report_field(
        "S018", "layout.global_batch_size",
        fmt::format("the schedule \"{}\" needs a number of micro-batches that the pipeline divides",
                    layout.schedule));
    if (!reading.explains) return;
    fault.arithmetic = micro_batches_shown(layout) +
                       fmt::format("\nmicro-batches / pipeline_parallel = {} / {} = {}",
                                   micro_batches, rows, quotient(micro_batches, rows));
    const std::int64_t unit = layout.data_parallel * layout.micro_batch_size * rows;
    const std::int64_t below = layout.global_batch_size / unit * unit;
    fault.help.push_back("global_batch_size: " + (below > 0
                                                      ? fmt::format("{} or {}", below, below + unit)
                                                      : std::to_string(unit)));
}

// The V fills with two micro-batches per rank, one for each chunk.
void check_enough(Reading& reading, const Layout& layout) {
    const std::int64_t least = 2 * layout.pipeline_parallel;
    if (layout.micro_batches() >= least) return;
    Diagnostic& fault = reading.report_field(
        "S018", "layout.global_batch_size",
        fmt::format("the schedule \"{}\" needs two micro-batches for each pipeline rank",
                    layout.schedule));
    if (!reading.explains) return;
    fault.arithmetic =
        micro_batches_shown(layout) +
        fmt::format("\n2 × pipeline_parallel = 2 × {} = {}", layout.pipeline_parallel, least);
    fault.help.push_back(fmt::format("global_batch_size of at least {}",
                                     layout.data_parallel * layout.micro_batch_size * least));
    if (layout.micro_batches() > 3)
        fault.help.push_back(
            fmt::format("or pipeline_parallel of at most {}", layout.micro_batches() / 2));
}

// A grid has its own number of ranks, stages and micro-batches.
void check_imported(Reading& reading, const Layout& layout) {
    const auto rows = static_cast<std::int64_t>(layout.imported.schedule.grid.size());
    const std::int64_t stages = layout.imported.schedule.placement.stages();
    if (reading.good({"layout.pipeline_parallel"}) && layout.pipeline_parallel != rows) {
        Diagnostic& fault =
            reading.report_field("S046", "layout.pipeline_parallel",
                                 "the schedule has a row for each of another number of ranks");
        fault.arithmetic = fmt::format("pipeline_parallel = {}, rows of {} = {}",
                                       layout.pipeline_parallel, layout.schedule, rows);
        fault.help.push_back(fmt::format("pipeline_parallel {}", rows));
    } else if (reading.good({"layout.pipeline_parallel"}) && layout.stages() != stages) {
        Diagnostic& fault = reading.report_field("S046", "layout.virtual_pipeline",
                                                 "the schedule runs another number of stages");
        fault.arithmetic =
            fmt::format("pipeline_parallel × virtual_pipeline = {} × {} = {}, stages of {} = {}",
                        layout.pipeline_parallel, layout.virtual_pipeline, layout.stages(),
                        layout.schedule, stages);
        fault.help.push_back(stages % rows == 0
                                 ? fmt::format("virtual_pipeline {}", stages / rows)
                                 : fmt::format("a schedule of a multiple of {} stages", rows));
    }
    const std::int64_t expected = layout.imported.micro_batches;
    if (!reading.good(
            {"layout.global_batch_size", "layout.micro_batch_size", "layout.data_parallel"}) ||
        layout.micro_batches() == expected)
        return;
    Diagnostic& fault = reading.report_field("S046", "layout.global_batch_size",
                                             "the schedule runs another number of micro-batches");
    fault.arithmetic =
        micro_batches_shown(layout) + fmt::format("\nof {}: {}", layout.schedule, expected);
    fault.help.push_back(fmt::format("global_batch_size: {}",
                                     layout.data_parallel * layout.micro_batch_size * expected));
}

// Ranks sum a tied embedding over the group of the first and the last of them; one that holds both
// of its uses has the sum.
void check_tied_ends(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!scenario.model.embeds_at_both_ends() || !reading.good({"layout.pipeline_parallel"}))
        return;
    const StagePlacement& placement = layout.imported.schedule.placement;
    const std::int32_t first = placement.rank_of(0);
    const std::int32_t last = placement.rank_of(placement.stages() - 1);
    const std::int64_t end = layout.pipeline_parallel - 1;
    if (first == last || (std::min(first, last) == 0 && std::max(first, last) == end)) return;
    Diagnostic& fault = reading.report_field(
        "S046", "layout.schedule",
        "the schedule has the uses of the embedding on ranks that do not sum it");
    fault.arithmetic =
        fmt::format("stage 0 on rank {}, stage {} on rank {}", first, placement.stages() - 1, last);
    fault.help.push_back(fmt::format(
        "a schedule with both on one rank, or one on rank 0 and the other on rank {}", end));
    fault.help.push_back(scenario.model.tied_embeddings ? "or \"tie_word_embeddings\": false"
                                                        : "or a model without multi-token "
                                                          "prediction");
}

void report_chunks_without_need(Reading& reading, const Layout& layout) {
    Diagnostic& fault = reading.report_field(
        "S017", "layout.virtual_pipeline",
        fmt::format("the schedule \"{}\" has no virtual stages", layout.schedule));
    std::string others;
    for (const ScheduleKind& kind : schedule_kinds())
        if (kind.chunks == Chunks::several ||
            (kind.chunks == Chunks::two && layout.virtual_pipeline == 2))
            others += fmt::format("\"{}\", ", kind.name);
    fault.help.push_back(fmt::format("\"schedule\": {}or virtual_pipeline 1", others));
}

}  // namespace

// Chunks of a rank, and a pipeline to have them on: the schedule's kind says which.
void check_chunks(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!reading.good({"layout.schedule", "layout.virtual_pipeline"}) ||
        !layout.imported.schedule.grid.empty())
        return;
    const ScheduleKind& kind = *find_schedule(layout.schedule);
    if (kind.chunks == Chunks::one) {
        if (layout.virtual_pipeline > 1) report_chunks_without_need(reading, layout);
        return;
    }
    if (kind.chunks == Chunks::two && layout.virtual_pipeline != 2) {
        reading
            .report_field(
                "S017", "layout.virtual_pipeline",
                fmt::format("the schedule \"{}\" has two chunks on each rank", layout.schedule))
            .help.push_back("virtual_pipeline 2");
    } else if (layout.virtual_pipeline < 2) {
        reading
            .report_field("S017", "layout.virtual_pipeline",
                          fmt::format("the schedule \"{}\" needs virtual stages", layout.schedule))
            .help.push_back("virtual_pipeline of at least 2, or \"schedule\": \"1f1b\"");
    }
    if (!reading.good({"layout.pipeline_parallel"}) || layout.pipeline_parallel > 1) return;
    reading
        .report_field("S017", "layout.pipeline_parallel",
                      fmt::format("the schedule \"{}\" needs a pipeline", layout.schedule))
        .help.push_back("pipeline_parallel of at least 2, or \"schedule\": \"1f1b\"");
}

void check_schedule(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!reading.good({"layout.schedule"})) return;
    if (!layout.imported.schedule.grid.empty()) {
        if (!reading.good({"layout.virtual_pipeline"})) return;
        check_imported(reading, layout);
        return check_tied_ends(reading, scenario);
    }
    if (!reading.good({"layout.pipeline_parallel", "layout.global_batch_size",
                       "layout.micro_batch_size", "layout.data_parallel"}))
        return;
    const ScheduleKind& kind = *find_schedule(layout.schedule);
    if (kind.micro_batches == MicroBatches::groups_of_p) check_groups(reading, layout);
    if (kind.micro_batches == MicroBatches::at_least_2p) check_enough(reading, layout);
}

}  // namespace orrery::plan
