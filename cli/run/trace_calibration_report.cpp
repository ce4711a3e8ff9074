#include "cli/run/trace_calibration_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

std::string error_text(double predicted_s, double measured_s) {
    return fmt::format("{} ({:+.1f} %)", seconds_text(predicted_s),
                       100 * (predicted_s / measured_s - 1));
}

}  // namespace

std::string trace_calibration_text(const compare::TraceCalibration& found) {
    std::string text =
        fmt::format("a step of {} on {} {}, {}\n\n", found.model, found.ranks,
                    found.ranks == 1 ? "rank" : "ranks", seconds_text(found.measured_step_s));
    TextTable families({Align::left, Align::right, Align::right, Align::right, Align::right});
    families.add({"family, all ranks", "measured", "model", "over it", "between ops"});
    for (const compare::FamilyOverModel& of : found.families)
        families.add({std::string(sim::name(of.family)), seconds_text(of.measured_s),
                      seconds_text(of.modelled_s),
                      fmt::format("x{:.3g}", of.measured_s / of.modelled_s),
                      percent_text(of.relative_sd)});
    text += families.text();
    text += fmt::format("  a rank waits {} for its host\n", seconds_text(found.measured_wait_s));
    text += "\nconstants, for --set or a scenario's own keys\n";
    for (const compare::FoundConstant& constant : found.constants)
        text += fmt::format("  {} = {:.4g}   (was {:.4g})\n", constant.key, constant.after,
                            constant.before);
    return text + fmt::format("\nthe step   measured {}, predicted {} before, {} after\n",
                              seconds_text(found.measured_step_s),
                              error_text(found.predicted_before_s, found.measured_step_s),
                              error_text(found.predicted_after_s, found.measured_step_s));
}

std::string trace_calibration_json(const compare::TraceCalibration& found) {
    nlohmann::ordered_json families = nlohmann::ordered_json::array();
    for (const compare::FamilyOverModel& of : found.families)
        families.push_back({{"family", sim::name(of.family)},
                            {"measured_s", of.measured_s},
                            {"modelled_s", of.modelled_s},
                            {"relative_sd", of.relative_sd}});
    nlohmann::ordered_json constants = nlohmann::ordered_json::array();
    for (const compare::FoundConstant& constant : found.constants)
        constants.push_back(
            {{"key", constant.key}, {"before", constant.before}, {"after", constant.after}});
    return nlohmann::ordered_json{{"model", found.model},
                                  {"ranks", found.ranks},
                                  {"step",
                                   {{"measured_s", found.measured_step_s},
                                    {"predicted_before_s", found.predicted_before_s},
                                    {"predicted_after_s", found.predicted_after_s},
                                    {"host_wait_s", found.measured_wait_s}}},
                                  {"families", std::move(families)},
                                  {"constants", std::move(constants)}}
               .dump(2) +
           '\n';
}

}  // namespace orrery::cli
