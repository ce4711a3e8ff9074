// Rules of size: what is counted in 64 bits stays far from their end, and a plan fits a machine's
// memory. The limits lie beyond anything that is trained; what exceeds them is a slip in a unit or
// a zero too many. Products are taken in double, so that the rules themselves cannot overflow.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr double kMostRanks = 1 << 20;
// Of a layer over a micro-batch, in all stages together: about 100 ops and 10 kB each.
constexpr double kMostPasses = 1e6;
// At most 24 bytes for each: weight, gradient, optimizer states, copies that ZeRO gathers.
constexpr double kMostParameters = 1e15;
// A layer keeps fewer than 50 tensors of at most the widest size and 4 bytes per element.
constexpr double kMostActivations = 1e16;

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
    if (ranks <= kMostRanks) return;
    Diagnostic& fault =
        reading.report_field("S030", "layout.data_parallel", "more ranks than can be simulated");
    limit(
        fault,
        fmt::format("tensor_parallel × pipeline_parallel × data_parallel = {} × {} × {} = {} ranks",
                    layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel,
                    figure(ranks)),
        kMostRanks, "ranks");
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

void check_parameters(Reading& reading, const Scenario& scenario) {
    const Model& m = scenario.model;
    const double head_columns = (2 * real(m.heads) + 2 * real(m.kv_heads)) * real(m.head_dim);
    const double columns = head_columns + (m.gated_mlp() ? 3 : 2) * real(m.ffn_hidden);
    const double rows = 2 * real(padded_vocabulary(scenario)) + real(m.position_rows());
    const double parameters = real(m.hidden) * (real(m.layers) * columns + rows);
    if (parameters <= kMostParameters) return;
    Diagnostic& fault =
        reading.report_field("S030", "model.hidden", "more parameters than can be counted");
    limit(fault,
          fmt::format("{} × (layers × columns of a layer + rows of the tables) = {} × ({} × {} + "
                      "{}) = {}",
                      reading.shown("model.hidden"), m.hidden, m.layers, figure(columns),
                      figure(rows), figure(parameters)),
          kMostParameters, "parameters");
}

struct Width {
    const char* what;
    double elements;  // per token
};

// What the layers write that is widest; unsharded, since some of it is.
Width widest(const Scenario& scenario) {
    const Model& m = scenario.model;
    std::vector<Width> widths = {
        {"hidden size", real(m.hidden)},
        {"width of the MLP", real(m.ffn_hidden)},
        {"heads and key-value heads", (real(m.heads) + 2 * real(m.kv_heads)) * real(m.head_dim)},
        {"padded vocabulary", real(padded_vocabulary(scenario))}};
    if (scenario.training.framework.attention_kernel == AttentionKernel::unfused)
        widths.push_back({"scores of all heads, heads × sequence_length",
                          real(m.heads) * real(scenario.training.sequence_length)});
    return *std::max_element(widths.begin(), widths.end(), [](const Width& a, const Width& b) {
        return a.elements < b.elements;
    });
}

void check_activations(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const double tokens = real(layout.micro_batch_size) * real(scenario.training.sequence_length);
    // The first and the last stage may be without a layer.
    const double passes = (real(scenario.model.layers) + 2) * real(layout.micro_batches());
    const Width width = widest(scenario);
    const double elements = passes * tokens * width.elements;
    if (elements <= kMostActivations) return;
    Diagnostic& fault = reading.report_field("S030", "layout.micro_batch_size",
                                             "larger activations than can be counted");
    limit(fault,
          fmt::format(
              "micro_batch_size × sequence_length = {} × {} = {} tokens\n"
              "widest activation: {} ({})\n(layers + 2) × micro-batches × tokens × widest = "
              "({} + 2) × {} × {} × {} = {} elements",
              layout.micro_batch_size, scenario.training.sequence_length, figure(tokens),
              figure(width.elements), width.what, scenario.model.layers, layout.micro_batches(),
              figure(tokens), figure(width.elements), figure(elements)),
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
    if (model) check_parameters(reading, scenario);
    const bool batches = reading.good({"model.layers", "layout.data_parallel",
                                       "layout.micro_batch_size", "layout.global_batch_size"});
    if (batches) check_passes(reading, scenario);
    if (batches && model &&
        reading.good(
            {"training.sequence_length", "training.attention_kernel", "layout.global_batch_size"}))
        check_activations(reading, scenario);
}

}  // namespace orrery::plan
