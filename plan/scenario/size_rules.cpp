// Rules of size: what is counted in 64 bits stays far from their end, and a plan fits a machine's
// memory. The limits lie beyond anything that is trained; what exceeds them is a slip in a unit or
// a zero too many. Products are taken in double, so that the rules themselves cannot overflow.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr double kMostSimulatedRanks = 1 << 20;
// Of a layer over a micro-batch, in all stages together: at least 1.5 kB of plan and trace each.
constexpr double kMostPasses = 1e6;
constexpr double kMostParameters = 1e15;  // of the model
// On one rank the two below stay within half of 2^50 bytes each, the end of a plan's sizes
// (plan/text): at most 24 bytes for each parameter, for weight, gradient, optimizer states and
// what ZeRO gathers.
constexpr double kMostRankParameters = 2e13;
constexpr double kMostActivations = 1e14;  // of up to 4 bytes, plus what alignment adds

double real(std::int64_t count) {
    return static_cast<double>(count);
}

// 12345678 as 1.23e+07: figures beyond every limit are not read digit by digit.
std::string figure(double value) {
    return value < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.2e}", value);
}

void limit(Diagnostic& fault, const std::string& arithmetic, double most, const char* unit) {
    fault.arithmetic = fmt::format("{}\nat most {} {}", arithmetic, figure(most), unit);
}

void check_rank_count(Reading& reading, const Layout& layout) {
    const double ranks = real(layout.tensor_parallel) * real(layout.pipeline_parallel) *
                         real(layout.context_parallel) * real(layout.data_parallel);
    if (ranks <= kMostSimulatedRanks) return;
    Diagnostic& fault =
        reading.report_field("S030", "layout.data_parallel", "more ranks than can be simulated");
    limit(fault,
          fmt::format("tensor_parallel × pipeline_parallel × data_parallel = {} × {} × {}{} = {} "
                      "ranks",
                      layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel,
                      layout.context_parallel > 1
                          ? fmt::format(", × context_parallel {}", layout.context_parallel)
                          : "",
                      figure(ranks)),
          kMostSimulatedRanks, "ranks");
}

void check_passes(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const double layers = real(scenario.model.layers);
    const double micro_batches = real(layout.micro_batches());
    if (layers * micro_batches <= kMostPasses) return;
    Diagnostic& fault = reading.report_field("S030", "layout.global_batch_size",
                                             "more work in one step than can be simulated");
    limit(fault,
          fmt::format("micro-batches = global_batch_size / (data_parallel × micro_batch_size) = "
                      "{} / ({} × {}) = {}\n{} × micro-batches = {} × {} = {} passes of a layer",
                      layout.global_batch_size, layout.data_parallel, layout.micro_batch_size,
                      layout.micro_batches(), reading.shown("model.layers"), scenario.model.layers,
                      layout.micro_batches(), figure(layers * micro_batches)),
          kMostPasses, "passes");
    const auto most = static_cast<std::int64_t>(kMostPasses) / scenario.model.layers;
    fault.help.push_back(
        fmt::format("global_batch_size of at most {}, or a larger micro_batch_size",
                    most * layout.data_parallel * layout.micro_batch_size));
}

// Layers of the pipeline rank that has most.
std::int64_t most_layers(const Layout& layout) {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(layout.pipeline_parallel));
    std::size_t rank = 0;
    for (const std::int64_t of_stage : layout.layers_per_stage) {
        layers[rank] += of_stage;
        if (++rank == layers.size()) rank = 0;
    }
    return *std::max_element(layers.begin(), layers.end());
}

// Of the matrices of a layer's MLP, of all experts.
double columns_of(const LayerSpec& kind) {
    const auto columns = [](const DenseMlp& mlp, std::int64_t width) {
        return (mlp.gated() ? 3 : 2) * real(width);
    };
    const ExpertMlp* experts = kind.experts();
    if (experts == nullptr) return columns(kind.dense(), kind.dense().ffn_hidden);
    return real(experts->routing.experts) *
               (1 + columns(experts->expert, experts->expert.ffn_hidden)) +
           columns(experts->expert, experts->shared_ffn);
}

// Columns, as high as the model is wide, of a layer's linears around attention.
double attention_columns(const Model& m) {
    const SoftmaxAttention& attention = m.attention();
    const Latents& latents = attention.latents;
    const double heads = real(attention.qkv_width()) + real(attention.context_width());
    if (!latents.on()) return heads;
    const double narrow = real(latents.q_rank) + real(latents.kv_rank);
    return heads + narrow + real(attention.rotary_dim) + narrow * heads / real(m.hidden);
}

void check_parameters(Reading& reading, const Scenario& scenario) {
    const Model& m = scenario.model;
    const double head_columns = attention_columns(m);
    double mlp_columns = 0;
    for (const LayerSpec& kind : m.kinds)
        mlp_columns = std::max(mlp_columns, columns_of(kind));
    const double columns = head_columns + mlp_columns;
    const double rows = 2 * real(padded_vocabulary(scenario)) + real(m.position_rows());
    const auto check = [&](const char* whose, std::int64_t layers, double most) {
        const double parameters = real(m.hidden) * (real(layers) * columns + rows);
        if (parameters <= most) return true;
        Diagnostic& fault =
            reading.report_field("S030", "model.hidden", "more parameters than can be counted");
        limit(fault,
              fmt::format("{} × ({} × columns of a layer + rows of the tables) = {} × ({} × {} + "
                          "{}) = {}",
                          reading.shown("model.hidden"), whose, m.hidden, layers, figure(columns),
                          figure(rows), figure(parameters)),
              most, "parameters");
        return false;
    };
    if (check("layers", m.layers, kMostParameters))
        check("layers of a pipeline rank", most_layers(scenario.layout), kMostRankParameters);
}

// Upper bounds for what one rank keeps of a token, unsharded: of one layer, and of the ends of the
// model, in elements.
double mlp_width(const Scenario& scenario) {
    double most = 0;
    for (const LayerSpec& kind : scenario.model.kinds) {
        const ExpertMlp* experts = kind.experts();
        if (experts == nullptr) {
            most = std::max(most, 6 * real(kind.dense().ffn_hidden));
            continue;
        }
        const double rows = scenario.layout.expert_row_bound * real(experts->routing.chosen) *
                            real(scenario.layout.expert_tensor_parallel);
        most = std::max(most, 4 * real(experts->routing.experts) + 6 * real(experts->shared_ffn) +
                                  rows * (6 * real(experts->expert.ffn_hidden) +
                                          4 * real(scenario.model.hidden)));
    }
    return most;
}
double layer_width(const Scenario& scenario) {
    const Model& m = scenario.model;
    const bool scores = scenario.training.framework.attention_kernel == AttentionKernel::unfused;
    const SoftmaxAttention& attention = m.attention();
    const Latents& latents = attention.latents;
    return 16 * real(m.hidden) + (latents.on() ? 12 : 6) * real(attention.qkv_width()) +
           6 * (real(latents.q_rank) + real(latents.kv_rank)) + mlp_width(scenario) +
           (scores ? 5 * real(attention.heads) * real(scenario.training.sequence_length) : 0);
}
double ends_width(const Scenario& scenario) {
    return 16 * real(scenario.model.hidden) + 5 * real(padded_vocabulary(scenario));
}

void check_activations(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    // A rank has its part of the context.
    const double tokens = real(layout.micro_batch_size) * real(scenario.training.sequence_length) /
                          real(layout.context_parallel);
    // All others start no more on a rank before the first one ends.
    const bool bounded = layout.schedule != "gpipe" && layout.imported.schedule.grid.empty();
    const double in_flight = bounded
                                 ? std::min(real(layout.micro_batches()), 2 * real(layout.stages()))
                                 : real(layout.micro_batches());
    const std::int64_t layers = most_layers(layout);
    const double width =
        real(layers) * layer_width(scenario) + real(layout.virtual_pipeline) * ends_width(scenario);
    const double elements = in_flight * tokens * width;
    if (elements <= kMostActivations) return;
    Diagnostic& fault = reading.report_field("S030", "layout.micro_batch_size",
                                             "larger activations than can be counted");
    limit(fault,
          fmt::format(
              "micro_batch_size × sequence_length{} = {} × {}{} = {} tokens\n"
              "micro-batches in flight × tokens × elements per token in {} layers = {} × {} "
              "× {} = {} elements on a rank",
              layout.context_parallel > 1 ? " / context_parallel" : "", layout.micro_batch_size,
              scenario.training.sequence_length,
              layout.context_parallel > 1 ? fmt::format(" / {}", layout.context_parallel) : "",
              figure(tokens), layers, figure(in_flight), figure(tokens), figure(width),
              figure(elements)),
          kMostActivations, "elements");
}

}  // namespace

void check_sizes(Reading& reading, const Scenario& scenario) {
    const bool grid = reading.good({"layout.tensor_parallel", "layout.pipeline_parallel",
                                    "layout.context_parallel", "layout.data_parallel"});
    if (grid) check_rank_count(reading, scenario.layout);
    const bool model = reading.good({"model.layers", "model.hidden", "model.heads",
                                     "model.kv_heads", "model.head_dim", "model.ffn_hidden",
                                     "model.vocabulary", "model.max_positions",
                                     "training.vocabulary_multiple", "layout.tensor_parallel"});
    const bool stages = reading.good({"layout.layers_per_stage", "layout.virtual_pipeline",
                                      "layout.pipeline_parallel", "layout.schedule"}) &&
                        !scenario.layout.layers_per_stage.empty();
    if (model && stages) check_parameters(reading, scenario);
    const bool batches = reading.good({"model.layers", "layout.data_parallel",
                                       "layout.micro_batch_size", "layout.global_batch_size"});
    if (batches) check_passes(reading, scenario);
    if (batches && model && stages && reading.good({"model.hidden", "layout.context_parallel"}) &&
        reading.good(
            {"training.sequence_length", "training.attention_kernel", "layout.global_batch_size"}))
        check_activations(reading, scenario);
}

}  // namespace orrery::plan
