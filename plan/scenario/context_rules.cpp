// Rules of context parallelism: what a sequence, or the heads, must divide into, and what is not
// computed over a zigzag of positions.
#include <fmt/format.h>

#include <numeric>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

// Balanced: two chunks for each rank, from either end of the sequence. What is left to a rank is
// divided once more by sequence parallelism.
void check_shares(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"training.sequence_length", "layout.sequence_parallel"})) return;
    const Layout& layout = scenario.layout;
    const std::int64_t length = scenario.training.sequence_length;
    const std::int64_t chunks = layout.balances_context() ? 2 : 1;
    const std::int64_t context = layout.context_parallel;
    if (length % (chunks * context) != 0) {
        Diagnostic& fault =
            reading.report_field("S050", "training.sequence_length",
                                 "the context-parallel ranks cannot share out the sequence evenly");
        const std::string parts = chunks == 2 ? "(2 × context_parallel)" : "context_parallel";
        const std::string numbers =
            chunks == 2 ? fmt::format("(2 × {})", context) : std::to_string(context);
        fault.arithmetic = fmt::format("sequence_length / {} = {} / {} = {}", parts, length,
                                       numbers, quotient(length, chunks * context));
        if (chunks == 2)
            fault.note = fmt::format(
                "\"{}\" gives each rank a chunk from either end of the sequence, so that causal "
                "attention is the same work on all",
                name(layout.context_algorithm));
        const std::int64_t unit = layout.sequence_parallel
                                      ? std::lcm(chunks * context, context * layout.tensor_parallel)
                                      : chunks * context;
        const std::int64_t below = length / unit * unit;
        fault.help.push_back(
            "sequence_length: " +
            (below > 0 ? fmt::format("{} or {}", below, below + unit) : std::to_string(unit)));
        return;
    }
    const std::int64_t tensor = layout.tensor_parallel;
    if (!layout.sequence_parallel || tensor == 1 || length % tensor != 0 ||
        length / context % tensor == 0)
        return;
    Diagnostic& fault = reading.report_field(
        "S019", "training.sequence_length",
        "sequence_parallel cannot shard a context-parallel rank's share of the sequence evenly");
    fault.arithmetic =
        fmt::format("sequence_length / context_parallel / tensor_parallel = {} / {} / {} = {}",
                    length, context, tensor, quotient(length, context * tensor));
    const std::int64_t unit = std::lcm(chunks * context, context * tensor);
    const std::int64_t below = length / unit * unit;
    fault.help.push_back("sequence_length: " + (below > 0
                                                    ? fmt::format("{} or {}", below, below + unit)
                                                    : std::to_string(unit)));
}

// Heads are exchanged for tokens: each rank gets whole heads, of queries and of keys.
void check_heads(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"model.heads", "model.kv_heads", "layout.tensor_parallel"})) return;
    const Layout& layout = scenario.layout;
    const SoftmaxAttention& attention = scenario.model.attention();
    const std::int64_t ranks = layout.tensor_parallel * layout.context_parallel;
    if (attention.heads % layout.tensor_parallel != 0 ||
        attention.kv_heads % layout.tensor_parallel != 0)
        return;  // S014
    if (attention.heads % ranks == 0 && attention.kv_heads % ranks == 0) return;
    Diagnostic& fault = reading.report_field(
        "S051", "layout.context_parallel",
        "\"all_to_all\" exchanges tokens for heads, and the ranks cannot share those out evenly");
    const auto line = [&](const char* field, std::int64_t heads) {
        return fmt::format("{} / (tensor_parallel × context_parallel) = {} / ({} × {}) = {}",
                           reading.shown(field), heads, layout.tensor_parallel,
                           layout.context_parallel, quotient(heads, ranks));
    };
    if (attention.heads % ranks != 0) fault.arithmetic = line("model.heads", attention.heads);
    if (attention.kv_heads % ranks != 0 && attention.kv_heads != attention.heads)
        fault.arithmetic +=
            (fault.arithmetic.empty() ? "" : "\n") + line("model.kv_heads", attention.kv_heads);
    const std::int64_t common =
        std::gcd(attention.heads, attention.kv_heads) / layout.tensor_parallel;
    fault.help.push_back("context_parallel: " +
                         choices_near(layout.context_parallel, divisors(common, common)));
    fault.help.emplace_back(
        "or \"context_algorithm\": \"ring\", which leaves heads where they are");
}

// A ring's blocks and gathered keys are seen tile by tile by global position. Scores that are
// stored whole would need masks of their own.
void check_kernels(Reading& reading, const Scenario& scenario) {
    const std::string algorithm = std::string(name(scenario.layout.context_algorithm));
    if (reading.good({"training.attention_kernel"}) &&
        scenario.training.framework.attention_kernel == AttentionKernel::unfused) {
        Diagnostic& fault =
            reading.report_field("S052", "layout.context_algorithm",
                                 fmt::format("\"{}\" needs attention that does not store its "
                                             "scores",
                                             algorithm));
        fault.arithmetic = "training.attention_kernel = \"unfused\"";
        fault.help.emplace_back(
            "\"attention_kernel\": \"flash\", or \"context_algorithm\": \"all_to_all\"");
    }
}

}  // namespace

void check_context(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    if (!reading.good({"layout.context_parallel", "layout.context_algorithm"}) ||
        layout.context_parallel == 1)
        return;
    check_shares(reading, scenario);
    if (layout.balances_context())
        check_kernels(reading, scenario);
    else
        check_heads(reading, scenario);
}

}  // namespace orrery::plan
