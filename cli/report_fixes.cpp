// What would make a layout fit, with the commands to run.
#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : between) + word;
    return text;
}

std::string table_text(const ReportInput& input) {
    TextTable table(
        {Align::left, Align::right, Align::left, Align::right, Align::right, Align::left});
    table.add({"change", "peak", "verdict", "step time", "of now", ""});
    const sim::Prediction& now = input.prediction;
    table.add({"none", bytes_text(static_cast<double>(now.memory.worst().peak_bytes)),
               std::string(sim::name(now.memory.verdict)), seconds_text(now.step.time_s), "1.00",
               ""});
    for (const sim::Fix& fix : input.fixes.fixes)
        table.add({joined(sim::overrides_of(fix.settings), ", "),
                   bytes_text(static_cast<double>(fix.peak_bytes)),
                   std::string(sim::name(fix.verdict)), seconds_text(fix.step_time_s),
                   fmt::format("{:.2f}", fix.step_time_ratio),
                   fix.gpus == now.run.gpus
                       ? ""
                       : fmt::format("on {} {}s", whole_text(fix.gpus), input.device_word())});
    return table.text();
}

std::string failed_text(const ReportInput& input) {
    const sim::FixSearch& search = input.fixes;
    if (search.tried == 0) return labelled("", "no change that was tried makes a valid scenario");
    std::string text =
        labelled("", fmt::format("nothing: {} valid changes were tried, alone and in pairs, of {}",
                                 search.tried, joined(search.keys, ", ")));
    const std::vector<std::string> closest = sim::overrides_of(search.closest->settings);
    return text +
           labelled("closest",
                    fmt::format(
                        "{}, {} of {}", joined(closest, ", "),
                        bytes_text(static_cast<double>(search.closest->peak_bytes)),
                        bytes_text(static_cast<double>(input.prediction.memory.capacity_bytes)))) +
           "  orrery simulate " + input.arguments.arguments(closest) + '\n';
}

}  // namespace

std::string fixes_text(const ReportInput& input, const Console& console) {
    const sim::Verdict verdict = input.prediction.memory.verdict;
    if (verdict == sim::Verdict::fits || input.prediction.prices) return "";
    std::string text = heading(verdict == sim::Verdict::tight
                                   ? "to make it fit surely: the smallest changes, each simulated"
                                   : "to make it fit: the smallest changes, each simulated",
                               console);
    if (input.fixes.fixes.empty()) return text + failed_text(input);
    text += table_text(input);
    text += labelled("order",
                     fmt::format("fewest keys changed, sure before tight, no more {}s than now, "
                                 "shortest step",
                                 input.device_word()));
    for (const sim::Fix& fix : input.fixes.fixes)
        text += "  orrery simulate " + input.arguments.arguments(sim::overrides_of(fix.settings)) +
                '\n';
    return text;
}

}  // namespace orrery::cli
