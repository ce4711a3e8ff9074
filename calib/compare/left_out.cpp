// What is known of a source that nothing was fitted to.
#include <fmt/format.h>

#include <algorithm>

#include "calib/compare/validate.hpp"

namespace orrery::compare {
namespace {

// What stands aside for the rows of a source, each thing once.
std::string aside(const Validation& validation, const std::string& group) {
    std::vector<std::string> seen;
    std::string text;
    for (const ValidatedRow& row : validation.rows)
        for (const std::string& what : row.left_out) {
            if (row.group != group) continue;
            if (std::find(seen.begin(), seen.end(), what) != seen.end()) continue;
            seen.push_back(what);
            text += (text.empty() ? "" : "; ") + what;
        }
    return text.empty() ? "nothing was fitted to it" : text;
}

std::string one_rate(const ErrorSummary& summary) {
    return summary.baseline_mean_abs_error_pct > 0
               ? fmt::format("{:.1f}", summary.baseline_mean_abs_error_pct)
               : "none";
}

std::string cause_line(const Validation& left_out, const std::string& group,
                       const ErrorSummary& summary) {
    const auto cause = left_out.causes.find(group);
    return fmt::format("- {} ({:.1f} %): {}\n", group, summary.mean_abs_error_pct,
                       cause == left_out.causes.end() ? "not known" : cause->second);
}

}  // namespace

std::vector<std::string> groups_of(const Validation& validation) {
    std::vector<std::string> groups;
    for (const ValidatedRow& row : validation.rows)
        if (std::find(groups.begin(), groups.end(), row.group) == groups.end())
            groups.push_back(row.group);
    return groups;
}

double mean_over_sources(const Validation& validation) {
    double sum = 0;
    int sources = 0;
    for (const std::string& group : groups_of(validation)) {
        const ErrorSummary summary = summarise_time(validation, Rows::measured, group);
        if (summary.n == 0) continue;
        sum += summary.mean_abs_error_pct;
        ++sources;
    }
    return sources > 0 ? sum / sources : 0;
}

std::string left_out_markdown(const Validation& validation, const Validation& left_out) {
    std::string text =
        "## With nothing fitted to a source\n\n"
        "Each run predicted as if no run of its source had been published: a stack's constants "
        "give "
        "way to those of the population of other stacks (`scenarios/priors/stacks.json`), the rest "
        "to what kernel timings, datasheets and other sources say "
        "(`left_out` in `scenarios/validation/rules.json`; `orrery validate --leave-out`). Runs of "
        "which a fact is assumed are among them.\n\n"
        "| source | runs | mean | bias | in 90 % | one rate | mean with fits | left out |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|\n";
    std::string causes;
    for (const std::string& group : groups_of(left_out)) {
        const ErrorSummary without = summarise_time(left_out, Rows::measured, group);
        if (without.n == 0) continue;
        const ErrorSummary with = summarise_time(validation, Rows::measured, group);
        text += fmt::format("| {} | {} | {:.1f} | {:+.1f} | {:.0f} | {} | {:.1f} | {} |\n", group,
                            without.n, without.mean_abs_error_pct, without.bias_pct,
                            100 * without.interval_coverage, one_rate(without),
                            with.mean_abs_error_pct, aside(left_out, group));
        if (without.mean_abs_error_pct > kMostWithoutFit)
            causes += cause_line(left_out, group, without);
    }
    text += fmt::format("\nMean over sources: {:.1f} %", mean_over_sources(left_out));
    text += fmt::format(" (with what was fitted {:.1f} %).\n", mean_over_sources(validation));
    if (causes.empty()) return text;
    return text + fmt::format("Above {:.0f} %, and why:\n\n", kMostWithoutFit) + causes;
}

}  // namespace orrery::compare
