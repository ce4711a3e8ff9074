#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/compare.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using compare::TimePair;

constexpr std::size_t kUsualOps = 10;

std::string spaced(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
}

// "+1.6 %": how much more was predicted than measured.
std::string error_text(double error_pct) {
    std::string size = percent_text(std::abs(error_pct) / 100);
    if (error_pct == 0 || size.front() == '<') return size;
    return (error_pct < 0 ? "-" : "+") + size;
}

std::string error_text(const std::optional<double>& error_pct) {
    return error_pct ? error_text(*error_pct) : "";
}

std::string difference_text(double seconds) {
    if (seconds == 0) return "0 s";
    return (seconds < 0 ? "-" : "+") + seconds_text(std::abs(seconds));
}

std::string step_text(const compare::Comparison& comparison, const Console& console) {
    const TimePair& step = comparison.step;
    std::string text = labelled(
        "step time",
        fmt::format("{} predicted, {} measured: error {}", seconds_text(step.predicted_s),
                    seconds_text(step.measured_s), console.bold(error_text(step.error_pct()))));
    if (comparison.correctness_only)
        text += labelled("", "several ranks shared a GPU: the measured times say nothing");
    if (!comparison.step_times_s) return text;
    const compare::Spread& run = *comparison.step_times_s;
    return text +
           labelled("", fmt::format(
                            "the run: median {} of {} step{}, {} to {}", seconds_text(run.median),
                            whole_text(static_cast<std::int64_t>(comparison.steps_measured)),
                            comparison.steps_measured == 1 ? "" : "s", seconds_text(run.low),
                            seconds_text(run.high)));
}

std::string accounts_text(const compare::Comparison& comparison, const Console& console) {
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right});
    table.add({"", "predicted", "measured", "difference", "of the step"});
    const auto add = [&](const std::string& name, const TimePair& pair) {
        const double difference = pair.predicted_s - pair.measured_s;
        table.add({name, seconds_text(pair.predicted_s), seconds_text(pair.measured_s),
                   difference_text(difference),
                   comparison.step.measured_s > 0
                       ? error_text(difference / comparison.step.measured_s * 100)
                       : ""});
    };
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        if (comparison.accounts[a].predicted_s != 0 || comparison.accounts[a].measured_s != 0)
            add(account_text(static_cast<trace::Account>(a)), comparison.accounts[a]);
    add("step", comparison.step);
    return heading("where the time goes, mean over ranks; difference: predicted less measured",
                   console) +
           table.text();
}

std::string kinds_text(const compare::Comparison& comparison, const Console& console) {
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right,
                     Align::right, Align::right});
    table.add({"kind", "ops", "predicted", "measured", "error", "least", "most"});
    for (const compare::KindComparison& kind : comparison.kinds)
        table.add({spaced(plan::name(kind.kind)), whole_text(kind.count),
                   seconds_text(kind.time.predicted_s), seconds_text(kind.time.measured_s),
                   error_text(kind.time.error_pct()),
                   kind.rank_error_pct ? error_text(kind.rank_error_pct->low) : "",
                   kind.rank_error_pct ? error_text(kind.rank_error_pct->high) : ""});
    return heading("by kind, time of a rank's ops, mean over ranks; least and most error of a rank",
                   console) +
           table.text();
}

// "0-3", "0, 2": the layers that an op's block is of.
std::string layers_text(const std::vector<std::int16_t>& layers) {
    if (layers.empty()) return "";
    if (layers.size() == 1) return std::to_string(layers.front());
    const bool in_a_row =
        layers.back() - layers.front() + 1 == static_cast<std::int64_t>(layers.size());
    return in_a_row ? fmt::format("{}-{}", layers.front(), layers.back())
                    : fmt::format("{} of {}-{}", layers.size(), layers.front(), layers.back());
}

std::string ops_text(const ComparisonReport& report, const Console& console) {
    const auto& ops = report.comparison.ops;
    const std::size_t wanted = report.top == 0 ? kUsualOps : report.top;
    const std::size_t shown = std::min(wanted, ops.size());
    TextTable table({Align::left, Align::left, Align::left, Align::right, Align::right,
                     Align::right, Align::right, Align::right});
    table.add({"block", "op", "layers", "runs", "predicted", "measured", "error", "of all"});
    for (std::size_t i = 0; i < shown; ++i) {
        const compare::OpComparison& op = ops[i];
        std::string name = op.name->label;
        if (op.name->group != plan::GroupKind::none)
            name += fmt::format(", {}", plan::name(op.name->group));
        table.add({op.name->block, name, layers_text(op.layers), whole_text(op.count),
                   seconds_text(op.predicted_each_s.median),
                   seconds_text(op.measured_each_s.median), error_text(op.time.error_pct()),
                   percent_text(op.share_of_error)});
    }
    return heading(fmt::format("the {} of {} ops that add most to the error; medians of one run",
                               shown, ops.size()),
                   console) +
           table.text();
}

std::string hidden_text(double busy, double exposed) {
    return busy > 0 ? percent_text(std::max(0.0, busy - exposed) / busy) : "";
}

std::string streams_text(const compare::Comparison& comparison, const Console& console) {
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"stream", "predicted", "measured", "error"});
    for (std::size_t s = 0; s < plan::kStreams; ++s) {
        const TimePair& busy = comparison.busy[s];
        if (busy.predicted_s == 0 && busy.measured_s == 0) continue;
        table.add({spaced(plan::name(static_cast<plan::Stream>(s))), seconds_text(busy.predicted_s),
                   seconds_text(busy.measured_s), error_text(busy.error_pct())});
    }
    std::string text = heading("how long each stream is busy, mean over ranks", console);
    text += table.text();
    TextTable overlap({Align::left, Align::right, Align::right, Align::right, Align::right});
    overlap.add({"communication", "predicted", "hidden", "measured", "hidden"});
    bool any = false;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const TimePair& busy = comparison.communication[a];
        if (busy.predicted_s == 0 && busy.measured_s == 0) continue;
        any = true;
        const TimePair& exposed = comparison.accounts[a];
        constexpr std::size_t kPrefix = std::string_view("exposed_").size();
        overlap.add(
            {std::string(trace::name(static_cast<trace::Account>(a)).substr(kPrefix)),
             seconds_text(busy.predicted_s), hidden_text(busy.predicted_s, exposed.predicted_s),
             seconds_text(busy.measured_s), hidden_text(busy.measured_s, exposed.measured_s)});
    }
    if (any)
        text += heading("transfers per rank, mean over ranks; hidden: compute goes on beside it",
                        console) +
                overlap.text();
    return text;
}

std::string memory_text(const compare::MemoryComparison& memory, const Console& console) {
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"", "predicted", "measured", "error"});
    using Bytes = std::optional<std::int64_t>;
    const auto shown = [](const Bytes& bytes) {
        return bytes ? bytes_text(static_cast<double>(*bytes)) : "unknown";
    };
    const auto add = [&](const char* name, const Bytes& predicted, const Bytes& measured) {
        const auto p = static_cast<double>(predicted.value_or(0));
        const auto m = static_cast<double>(measured.value_or(0));
        table.add({name, shown(predicted), shown(measured),
                   predicted && m > 0 ? error_text((p - m) / m * 100) : ""});
    };
    add("arena", memory.predicted_peak, memory.measured_peak);
    add("rest of the process", memory.predicted_other, memory.measured_other);
    return heading("memory of the rank with the most", console) + table.text();
}

// A size, and what it takes, as rates: saved bytes are written behind the stall.
std::string storage_text(const compare::Comparison& comparison, const Console& console) {
    const trace::StorageFacts& predicted = comparison.predicted_storage;
    const trace::StorageFacts& measured = comparison.measured_storage;
    if (measured.empty()) return "";
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"", "predicted", "measured", "error"});
    using Value = trace::StorageFacts::Value;
    const auto add = [&](const char* name, const Value& p, const Value& m, const auto& text) {
        if (!m) return;
        table.add({name, p ? text(*p) : "unknown", text(*m),
                   p && *p > 0 && *m > 0 ? error_text((*p - *m) / *m * 100) : ""});
    };
    const auto rate = [](const Value& bytes, const Value& seconds) -> Value {
        if (!bytes || !seconds || *seconds == 0) return std::nullopt;
        return *bytes / *seconds;
    };
    const auto rate_text = [](double bytes) { return bytes_text(bytes) + "/s"; };
    add("wait for data, a step", predicted.data_wait_s, measured.data_wait_s, seconds_text);
    add("checkpoint", predicted.save_bytes, measured.save_bytes, bytes_text);
    add("  training waits", predicted.save_stall_s, measured.save_stall_s, seconds_text);
    add("  written at", rate(predicted.save_bytes, predicted.save_write_s),
        rate(measured.save_bytes, measured.save_write_s), rate_text);
    add("loaded in", predicted.load_s, measured.load_s, seconds_text);
    return heading("data and checkpoints of the run", console) + table.text();
}

}  // namespace

std::string comparison_text(const ComparisonReport& report, const Console& console) {
    const compare::Comparison& comparison = report.comparison;
    std::string text = console.bold("a predicted step beside the measured one") + '\n';
    text += labelled("predicted", report.predicted);
    text += labelled("prices", report.prices);
    text += imported_text(report.resolved_json);
    text += labelled("measured", report.measured);
    return text + '\n' + step_text(comparison, console) + accounts_text(comparison, console) +
           kinds_text(comparison, console) + ops_text(report, console) +
           streams_text(comparison, console) + memory_text(comparison.memory, console) +
           storage_text(comparison, console);
}

}  // namespace orrery::cli
