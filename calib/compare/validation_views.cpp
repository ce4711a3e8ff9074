// The two ways a validation is shown: JSON for programs, a table for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "calib/compare/rank_order.hpp"
#include "calib/compare/validate.hpp"

namespace orrery::compare {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const ErrorSummary& s, bool memory) {
    ordered_json object = {{"n", s.n},
                           {"mean_abs_error_pct", s.mean_abs_error_pct},
                           {"median_abs_error_pct", s.median_abs_error_pct},
                           {"p95_abs_error_pct", s.p95_abs_error_pct},
                           {"bias_pct", s.bias_pct}};
    // No interval is predicted for a peak, and no baseline: null, not zero.
    object["interval_coverage"] =
        memory ? ordered_json(nullptr) : ordered_json(s.interval_coverage);
    object["baseline_mean_abs_error_pct"] =
        memory ? ordered_json(nullptr) : ordered_json(s.baseline_mean_abs_error_pct);
    return object;
}

// How often a verdict was given to runs that ran, and to runs that ran out of memory.
std::int64_t given(const Validation& validation, const char* verdict, bool ran_out) {
    return std::count_if(validation.outcomes.begin(), validation.outcomes.end(),
                         [&](const MemoryOutcome& outcome) {
                             return outcome.verdict == verdict && outcome.ran_out == ran_out;
                         });
}

constexpr std::array kVerdicts = {"fits", "tight", "exceeds"};

ordered_json verdicts_json(const Validation& validation) {
    ordered_json object;
    for (const char* verdict : kVerdicts)
        object[verdict] = {{"ran", given(validation, verdict, false)},
                           {"ran_out", given(validation, verdict, true)}};
    return object;
}

ordered_json outcomes_json(const Validation& validation) {
    ordered_json list = ordered_json::array();
    for (const MemoryOutcome& outcome : validation.outcomes)
        list.push_back({{"id", outcome.id},
                        {"ran_out", outcome.ran_out},
                        {"verdict", outcome.verdict},
                        {"fit_probability", outcome.fit_probability},
                        {"predicted_peak_bytes", outcome.peak_bytes},
                        {"capacity_bytes", outcome.capacity_bytes}});
    return list;
}

std::string verdicts_text(const Validation& validation) {
    std::string text = fmt::format("{:<12} {:>8} {:>14}\n", "verdict", "ran", "ran out");
    for (const char* verdict : kVerdicts)
        text += fmt::format("{:<12} {:>8} {:>14}\n", verdict, given(validation, verdict, false),
                            given(validation, verdict, true));
    return text;
}

ordered_json summary_json(const Validation& validation, Rows rows) {
    const OutOfMemorySummary& o = validation.out_of_memory;
    return {{"step_time", to_json(summarise_time(validation, rows), false)},
            {"memory", to_json(summarise_memory(validation, rows), true)},
            {"out_of_memory",
             {{"true_positive", o.true_positive},
              {"false_positive", o.false_positive},
              {"true_negative", o.true_negative},
              {"false_negative", o.false_negative},
              {"verdicts", verdicts_json(validation)}}}};
}

ordered_json number(const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json row_json(const ValidatedRow& row) {
    ordered_json object = {{"id", row.id},
                           {"measured_s", number(row.measured_s)},
                           {"predicted_s", row.predicted_s},
                           {"interval_s", {row.low_s, row.high_s}},
                           {"error_pct", nullptr}};
    if (row.measured_s) object["error_pct"] = row.error_pct();
    object["baseline_s"] = number(row.baseline_s);
    object["framework"] = row.framework;
    object["source"] = row.group;
    if (row.measured_peak_bytes) {
        object["measured_peak_bytes"] = *row.measured_peak_bytes;
        object["predicted_peak_bytes"] = *row.predicted_peak_bytes;
    }
    if (!row.mistrusted.empty()) object["mistrusted"] = row.mistrusted;
    if (!row.assumed.empty()) object["assumed"] = row.assumed;
    if (!row.left_out.empty()) object["left_out"] = row.left_out;
    return object;
}

std::string summary_line(const std::string& name, const ErrorSummary& s) {
    return fmt::format("{:<44.44} {:>4} {:>7.1f} {:>7.1f} {:>7.1f} {:>+7.1f} {:>7.0f} {:>9.1f}\n",
                       name, s.n, s.mean_abs_error_pct, s.median_abs_error_pct, s.p95_abs_error_pct,
                       s.bias_pct, 100 * s.interval_coverage, s.baseline_mean_abs_error_pct);
}

std::int64_t assumed_rows(const Validation& validation) {
    return std::count_if(validation.rows.begin(), validation.rows.end(),
                         [](const ValidatedRow& row) { return !row.assumed.empty(); });
}

// What stands by default, and for how many rows; `line` shows one.
std::string assumptions(const Validation& validation, const char* line) {
    std::map<std::string, std::int64_t> counts;
    for (const ValidatedRow& row : validation.rows)
        for (const std::string& what : row.assumed)
            ++counts[what];
    std::string text;
    for (const auto& [what, count] : counts)
        text += fmt::format(fmt::runtime(line), count, what);
    return text;
}

std::string group_table(const Validation& validation) {
    std::string text =
        fmt::format("{:<44} {:>4} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9}\n", "|error| of step time, %",
                    "rows", "mean", "median", "p95", "bias", "in 90%", "baseline");
    for (const std::string& group : groups_of(validation))
        text += summary_line(group, summarise_time(validation, Rows::all, group));
    text += summary_line("all", summarise_time(validation, Rows::all));
    const bool mistrusted = std::any_of(validation.rows.begin(), validation.rows.end(),
                                        [](const auto& row) { return !row.mistrusted.empty(); });
    const std::int64_t assumed = assumed_rows(validation);
    if (mistrusted || assumed > 0)
        text += summary_line(
            assumed > 0 ? "without mistrusted rows and defaults" : "without mistrusted rows",
            summarise_time(validation, Rows::trusted));
    if (assumed > 0)
        text +=
            summary_line("with a default for a fact", summarise_time(validation, Rows::assumed));
    text += fmt::format("mean over {} sources, trusted rows: {:.1f} %\n",
                        groups_of(validation).size(), mean_over_sources(validation));
    return text;
}

std::string markdown_row(const std::string& name, const ErrorSummary& s) {
    const std::string baseline = s.baseline_mean_abs_error_pct > 0
                                     ? fmt::format("{:.1f}", s.baseline_mean_abs_error_pct)
                                     : std::string("none");
    return fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:+.1f} | {:.0f} | {} |\n", name,
                       s.n, s.mean_abs_error_pct, s.median_abs_error_pct, s.p95_abs_error_pct,
                       s.bias_pct, 100 * s.interval_coverage, baseline);
}

std::string markdown_memory(const Validation& validation) {
    std::string text =
        "\n| peak memory | runs | mean | median | p95 | bias |\n"
        "|---|---:|---:|---:|---:|---:|\n";
    for (const std::string& group : groups_of(validation)) {
        const ErrorSummary s = summarise_memory(validation, Rows::trusted, group);
        if (s.n > 0)
            text += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:+.1f} |\n", group, s.n,
                                s.mean_abs_error_pct, s.median_abs_error_pct, s.p95_abs_error_pct,
                                s.bias_pct);
    }
    return text;
}

// Sources and how many rows of theirs are skipped for each reason.
std::string markdown_skipped(const Validation& validation) {
    std::map<std::string, std::int64_t> reasons;
    for (const SkippedRow& row : validation.skipped)
        ++reasons[row.why];
    std::string text = "| rows | why |\n|---:|---|\n";
    for (const auto& [why, count] : reasons)
        text += fmt::format("| {} | {} |\n", count, why);
    return text;
}

std::string memory_rows(const Validation& validation) {
    std::string text;
    for (const ValidatedRow& row : validation.rows)
        if (row.measured_peak_bytes)
            text += fmt::format("{:<56.56} {:>8.2f} {:>8.2f} {:>+8.1f}\n", row.id,
                                *row.measured_peak_bytes / 1e9, *row.predicted_peak_bytes / 1e9,
                                (*row.predicted_peak_bytes / *row.measured_peak_bytes - 1) * 100);
    if (text.empty()) return text;
    return fmt::format("\n{:<56} {:>8} {:>8} {:>8}\n", "peak memory", "GB", "predicted",
                       "error %") +
           text;
}

}  // namespace

std::string validation_json(const Validation& validation) {
    ordered_json object;
    object["rows"] = ordered_json::array();
    for (const ValidatedRow& row : validation.rows)
        object["rows"].push_back(row_json(row));
    object["skipped"] = ordered_json::array();
    for (const SkippedRow& row : validation.skipped)
        object["skipped"].push_back({{"id", row.id}, {"why", row.why}});
    object["memory_outcomes"] = outcomes_json(validation);
    object["summary"] = summary_json(validation, Rows::all);
    object["summary_trusted"] = summary_json(validation, Rows::trusted);
    object["summary_assumed"] = {
        {"step_time", to_json(summarise_time(validation, Rows::assumed), false)},
        {"memory", to_json(summarise_memory(validation, Rows::assumed), true)}};
    object["sources"] = ordered_json::array();
    for (const std::string& group : groups_of(validation)) {
        ordered_json source = {{"source", group}};
        source.update(to_json(summarise_time(validation, Rows::all, group), false));
        object["sources"].push_back(std::move(source));
    }
    return object.dump(2) + "\n";
}

std::string validation_text(const Validation& validation) {
    std::string text =
        fmt::format("{:<34} {:>10} {:>10}   {:<19} {:>7} {:>9}\n", "run", "measured s",
                    "predicted s", "90 % interval s", "error %", "baseline %");
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_s) continue;
        const std::string interval = fmt::format("[{:.3f}, {:.3f}]", row.low_s, row.high_s);
        const std::string baseline =
            row.baseline_s ? fmt::format("{:+.1f}", (*row.baseline_s / *row.measured_s - 1) * 100)
                           : std::string("none");
        text += fmt::format("{:<34.34} {:>10.3f} {:>10.3f}   {:<19} {:>+7.1f} {:>9}{}\n", row.id,
                            *row.measured_s, row.predicted_s, interval, row.error_pct(), baseline,
                            row.mistrusted.empty() ? "" : "  mistrusted");
    }
    text += memory_rows(validation);
    text += "\n" + group_table(validation);
    const ErrorSummary memory = summarise_memory(validation, Rows::all);
    if (memory.n > 0)
        text += fmt::format(
            "\n|error| of peak memory over {} rows: mean {:.1f} %, median {:.1f} %, "
            "bias {:+.1f} %\n",
            memory.n, memory.mean_abs_error_pct, memory.median_abs_error_pct, memory.bias_pct);
    const OutOfMemorySummary& o = validation.out_of_memory;
    text += fmt::format(
        "\nout of memory: {} foreseen, {} missed, {} false alarms, {} rightly said to run\n",
        o.true_positive, o.false_negative, o.false_positive, o.true_negative);
    text += verdicts_text(validation);
    for (const ValidatedRow& row : validation.rows)
        if (!row.mistrusted.empty())
            text += fmt::format("mistrusted: {}: {}\n", row.id, row.mistrusted);
    if (const std::int64_t assumed = assumed_rows(validation); assumed > 0)
        text += fmt::format("\nby default, in {} rows:\n", assumed) +
                assumptions(validation, "  {:>4} {}\n");
    if (!validation.skipped.empty())
        text += fmt::format("\nskipped, {} rows:\n", validation.skipped.size());
    for (const SkippedRow& row : validation.skipped)
        text += fmt::format("  {:<40} {}\n", row.id, row.why);
    return text;
}

std::string validation_markdown(const Validation& validation, const Validation& left_out) {
    std::string text =
        "# How right are the predictions?\n\n"
        "Published runs, predicted with their own facts and the constants that are shipped "
        "(`orrery validate scenarios/published/*.json --markdown` writes this page).\n"
        "Errors are of the step time, in per cent; *in 90 %* is the share of runs within the "
        "predicted interval; *one rate* is the error of model FLOPs ÷ (GPUs × one rate per GPU "
        "type and precision).\n\n"
        "| source | runs | mean | median | p95 | bias | in 90 % | one rate |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for (const std::string& group : groups_of(validation)) {
        const ErrorSummary s = summarise_time(validation, Rows::trusted, group);
        if (s.n > 0) text += markdown_row(group, s);
    }
    text += markdown_row("all", summarise_time(validation, Rows::trusted));
    text += markdown_row("all, mistrusted runs too", summarise_time(validation, Rows::all));
    if (assumed_rows(validation) > 0)
        text +=
            markdown_row("with a default for a fact", summarise_time(validation, Rows::assumed));
    text += markdown_memory(validation);
    const ErrorSummary memory = summarise_memory(validation, Rows::trusted);
    text += fmt::format(
        "\nPeak memory, {} runs: mean |error| {:.1f} %, median {:.1f} %, p95 {:.1f} "
        "%, bias {:+.1f} %.\n",
        memory.n, memory.mean_abs_error_pct, memory.median_abs_error_pct, memory.p95_abs_error_pct,
        memory.bias_pct);
    const OutOfMemorySummary& o = validation.out_of_memory;
    text += fmt::format(
        "Out of memory: {} foreseen, {} missed, {} false alarms, {} rightly said to "
        "run.\n",
        o.true_positive, o.false_negative, o.false_positive, o.true_negative);
    text += "\n" + rank_order_markdown(validation);
    text += "\n" + left_out_markdown(validation, left_out);
    text += "\n## Runs that are not trusted\n\n";
    for (const ValidatedRow& row : validation.rows)
        if (!row.mistrusted.empty())
            text += fmt::format("- `{}` ({:+.0f} %): {}\n", row.id,
                                row.measured_s ? row.error_pct() : 0.0, row.mistrusted);
    if (assumed_rows(validation) > 0)
        text += "\n## Facts for which a default stands\n\n| rows | default |\n|---:|---|\n" +
                assumptions(validation, "| {} | {} |\n");
    return text + "\n## Runs that are left out\n\n" + markdown_skipped(validation);
}

}  // namespace orrery::compare
