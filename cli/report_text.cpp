// The text report, from what is simulated to what to try next. Sections about memory, time and
// sources are in report_memory.cpp, report_time.cpp and report_sources.cpp.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/quantity.hpp"
#include "cli/report.hpp"
#include "cli/report_sections.hpp"
#include "cli/scenario_input.hpp"
#include "cli/scenario_lines.hpp"
#include "cli/text_table.hpp"
#include "plan/checks/validate_plan.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::cli {
namespace {

std::string title(const plan::Scenario& scenario) {
    return fmt::format("{}, one training step on {}",
                       scenario.model.name.empty() ? "model" : scenario.model.name,
                       devices_line(scenario.cluster, scenario.layout.ranks()));
}

std::string profiles_text(const sim::Profile& profile) {
    std::string text =
        (profile.others.empty() ? "profile " : "profiles ") + file_name(profile.path);
    for (const sim::Profile& other : profile.others)
        text += ", " + file_name(other.path);
    return text;
}

// The plan's sums, held against the closed forms of the scenario once more.
std::string conserved_text(const ReportInput& input) {
    const plan::Conserved& plan = input.prediction.conserved;
    const plan::Conserved asked = plan::conserved_of(input.scenario);
    const bool same = plan.layers == asked.layers && plan.parameters == asked.parameters &&
                      plan.tokens_per_step == asked.tokens_per_step &&
                      plan.model_flops_per_step == asked.model_flops_per_step;
    return labelled("conserved",
                    fmt::format("{} layers, {} parameters, {} tokens and {} per step; {}",
                                whole_text(plan.layers), whole_text(plan.parameters),
                                whole_text(plan.tokens_per_step),
                                scaled_text(plan.model_flops_per_step, "FLOP"),
                                same ? "checked: the plan's sums are those of the scenario"
                                     : "THE PLAN'S SUMS ARE NOT THOSE OF THE SCENARIO"));
}

// What the interval is made of, the widest first: standard deviations towards a longer step.
std::string parts_text(const sim::StepPrediction& step) {
    std::vector<std::pair<double, std::string_view>> parts;
    for (std::size_t part = 0; part < sim::kIntervalParts; ++part)
        parts.emplace_back(step.interval_parts[part].late,
                           sim::name(static_cast<sim::IntervalPart>(part)));
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& one, const auto& other) { return one.first > other.first; });
    constexpr double kWorthSaying = 0.005;
    std::string text;
    for (const auto& [late, name] : parts) {
        if (late < kWorthSaying) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent_text(late));
    }
    return text.empty() ? "" : labelled("unsure of", text);
}

std::string throughput_text(const ReportInput& input, const Console& console) {
    const sim::StepPrediction& step = input.prediction.step;
    const sim::ThroughputPrediction& rate = input.prediction.throughput;
    const char* device = input.device_word();
    std::string text =
        labelled("step time",
                 fmt::format("{}   90 % interval {} to {}", console.bold(seconds_text(step.time_s)),
                             seconds_text(step.low_s), seconds_text(step.high_s)));
    text += parts_text(step);
    text += labelled("throughput",
                     fmt::format("{} tokens/s, {} tokens/s per {}", digits_text(rate.tokens_per_s),
                                 digits_text(rate.tokens_per_s_per_gpu), device));
    text += labelled("MFU", fmt::format("{} = {} model TFLOP/s per {} / {} TFLOP/s dense peak",
                                        console.bold(percent_text(rate.mfu)),
                                        digits_text(rate.model_tflops_per_gpu), device,
                                        digits_text(rate.peak_tflops)));
    text += labelled("", fmt::format("{} with causal attention at half; {} of all FLOP that run "
                                     "(HFU)",
                                     percent_text(rate.mfu_causal), percent_text(rate.hfu)));
    return text + labelled("", "peak: " + rate.peak_source);
}

std::string next_text(const ReportInput& input, const Console& console) {
    const std::string again = input.arguments.arguments();
    return heading("next", console) + "  orrery explain " + again + "\n  orrery simulate " + again +
           " --timeline\n  orrery simulate " + again + " --trace step.orrery\n";
}

}  // namespace

std::string heading(const std::string& text, const Console& console) {
    return '\n' + console.bold(text) + '\n';
}

std::string labelled(const std::string& label, const std::string& text) {
    constexpr std::size_t kIndent = 14;
    return fmt::format("  {:<12}", label) + wrapped(text, kReportColumns, kIndent, kIndent) + '\n';
}

std::string framework_text(const plan::Framework& framework, const sim::Profile& profile) {
    std::vector<std::string> known;
    if (framework.assumed) known.push_back("assumed: training.framework is not set");
    if (!sim::timed_on(framework, profile))
        known.push_back(fmt::format("never timed on {}", profile.device));
    if (!sim::memory_known(framework, profile))
        known.push_back(
            fmt::format("its memory never measured on a {}", profile.hardware.cpu ? "CPU" : "GPU"));
    return "framework " + framework.name +
           (known.empty() ? "" : fmt::format(" ({})", fmt::join(known, "; ")));
}

std::string headline_text(const ReportInput& input, const Console& console) {
    const plan::Scenario& scenario = input.scenario;
    std::string text = console.bold(title(scenario)) + '\n';
    text += labelled("layout", layout_line(scenario.layout));
    text += labelled("batch", batch_line(scenario));
    text += labelled("cluster", cluster_line(scenario.cluster));
    const std::string uneven = uneven_line(scenario.cluster);
    if (!uneven.empty()) text += labelled("uneven", uneven);
    if (input.prediction.run.idle_gpus > 0)
        text += labelled("idle",
                         fmt::format("{} of {} {}s have nothing to do in this layout",
                                     whole_text(input.prediction.run.idle_gpus),
                                     whole_text(scenario.cluster.devices()), input.device_word()));
    return text +
           labelled(
               "software",
               fmt::format("{}, {}; {}", framework_text(scenario.training.framework, input.profile),
                           precision_text(scenario.training), profiles_text(input.profile))) +
           imported_text(input.resolved_json);
}

std::string report_text(const ReportInput& input, const Console& console) {
    return headline_text(input, console) + conserved_text(input) + '\n' +
           throughput_text(input, console) + time_text(input, console) +
           communication_text(input, console) + memory_text(input, console) +
           fixes_text(input, console) + run_text(input, console) + sources_text(input, console) +
           unused_text(input, console) + next_text(input, console);
}

}  // namespace orrery::cli
