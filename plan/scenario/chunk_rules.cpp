// Rules of attention in chunks: what a sequence must divide into, and what is not computed so.
#include <fmt/format.h>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

void check_chunk(Reading& reading, const Scenario& scenario, const SoftmaxAttention& attention) {
    const std::int64_t length = scenario.training.sequence_length;
    const Layout& layout = scenario.layout;
    const auto refuse = [&](const char* field, const char* what, const char* help) {
        Diagnostic& fault = reading.report_field(
            "S020", field, fmt::format("{} beside attention in chunks: not supported yet", what));
        fault.arithmetic = fmt::format("sequence_length = {}, {} = {}", length,
                                       reading.shown("model.attention_chunk"), attention.chunk);
        fault.help.emplace_back(help);
    };
    if (length % attention.chunk != 0) {
        Diagnostic& fault =
            reading.report_field("S050", "training.sequence_length",
                                 "the sequence is not a whole number of attention's chunks");
        fault.arithmetic = fmt::format("sequence_length / {} = {} / {} = {}",
                                       reading.shown("model.attention_chunk"), length,
                                       attention.chunk, quotient(length, attention.chunk));
        const std::int64_t below = length / attention.chunk * attention.chunk;
        fault.help.push_back(
            fmt::format("sequence_length: {} or {}", below, below + attention.chunk));
    }
    if (layout.context_parallel > 1 && layout.context_algorithm != ContextAlgorithm::all_to_all &&
        reading.good({"layout.context_parallel", "layout.context_algorithm"}))
        refuse("layout.context_algorithm", "keys that travel", "\"all_to_all\"");
    if (attention.dropout > 0) refuse("model", "dropout of probabilities", "attention_dropout 0");
}

}  // namespace

void check_attention_chunks(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"model", "training.sequence_length"})) return;
    for (const LayerSpec& kind : scenario.model.kinds)
        if (attends_in_chunks(scenario, kind.attention()))
            return check_chunk(reading, scenario, kind.attention());
}

}  // namespace orrery::plan
