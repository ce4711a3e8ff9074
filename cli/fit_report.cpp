#include "cli/fit_report.hpp"

#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

// Errors over the rows that the fit has not seen.
std::string families_text(const std::vector<fit::FamilyReport>& families) {
    if (families.empty()) return "";
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right,
                     Align::right, Align::right, Align::right});
    TextTable curves({Align::left, Align::left});
    table.add({"kernels", "fitted", "left out", "held out", "mean", "median", "p95", "bias"});
    for (const fit::FamilyReport& family : families) {
        const sim::HeldOut& errors = family.held_out.absolute;
        table.add({family.family, whole_text(family.fitted_rows) + " rows",
                   whole_text(family.left_out_rows) + " rows", whole_text(errors.rows) + " rows",
                   percent_text(errors.mean_abs_error), percent_text(errors.median_abs_error),
                   percent_text(errors.p95_abs_error), percent_text(family.held_out.bias)});
        curves.add({family.family, family.parameters});
    }
    return "errors of the curves, predicted / measured - 1, over rows that the fit has not seen\n" +
           table.text() + "\ncurves\n" + curves.text();
}

std::string collectives_text(const std::vector<fit::CollectiveReport>& collectives) {
    if (collectives.empty()) return "";
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"collective", "ranks", "points", "error"});
    for (const fit::CollectiveReport& collective : collectives)
        table.add({collective.collective, std::to_string(collective.ranks) + " ranks",
                   std::to_string(collective.points) + " points",
                   percent_text(collective.relative_sd)});
    return "root mean square error at every second point, interpolated from the others\n" +
           table.text();
}

}  // namespace

std::string fit_report_text(const fit::FitReport& report) {
    const std::string families = families_text(report.families);
    const std::string collectives = collectives_text(report.collectives);
    std::string unread;
    for (const std::string& table : report.unread)
        unread += "\nnot read: " + table + ", which the datasheet's \"tables\" do not ask for\n";
    return unread + (families.empty() ? "" : "\n" + families) +
           (collectives.empty() ? "" : "\n" + collectives);
}

nlohmann::ordered_json fit_errors_json(const fit::ErrorSummary& errors) {
    return {{"rows", errors.absolute.rows},
            {"mean_abs_error_pct", 100 * errors.absolute.mean_abs_error},
            {"median_abs_error_pct", 100 * errors.absolute.median_abs_error},
            {"p95_abs_error_pct", 100 * errors.absolute.p95_abs_error},
            {"bias_pct", 100 * errors.bias},
            {"rms_error_pct", 100 * errors.standard_deviation}};
}

nlohmann::ordered_json fit_report_json(const fit::FitReport& report) {
    nlohmann::ordered_json json = {{"device", report.device},
                                   {"families", nlohmann::ordered_json::array()},
                                   {"collectives", nlohmann::ordered_json::array()},
                                   {"unread", report.unread}};
    for (const fit::FamilyReport& family : report.families) {
        nlohmann::ordered_json row = {{"family", family.family},
                                      {"fitted_rows", family.fitted_rows},
                                      {"left_out_rows", family.left_out_rows}};
        row.update(fit_errors_json(family.held_out));
        row["curve"] = family.parameters;
        json["families"].push_back(std::move(row));
    }
    for (const fit::CollectiveReport& collective : report.collectives)
        json["collectives"].push_back({{"collective", collective.collective},
                                       {"ranks", collective.ranks},
                                       {"points", collective.points},
                                       {"rms_error_pct", 100 * collective.relative_sd}});
    return json;
}

}  // namespace orrery::cli
