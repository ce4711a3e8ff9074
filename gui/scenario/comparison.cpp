#include "gui/scenario/comparison.hpp"

#include <sstream>

#include "cli/compare.hpp"
#include "cli/diff.hpp"

namespace orrery::gui {

std::string comparison_text(const Answer& a, const Answer& b, const trace::Alignment& alignment) {
    cli::ScenarioInput input_a, input_b;
    input_a.file = name_of(a.asked);
    input_b.file = name_of(b.asked);
    const auto report_of = [](const Answer& answer, const cli::ScenarioInput& input) {
        return cli::ReportInput{*answer.read.scenario, *answer.profile, *answer.prediction, input,
                                answer.read.resolved_json};
    };
    const cli::DiffReport report{report_of(a, input_a), report_of(b, input_b),
                                 sim::difference_of(*a.prediction, *b.prediction),
                                 plan::differing_keys(a.read.resolved_json, b.read.resolved_json),
                                 trace::op_differences(alignment)};
    std::ostringstream out, err;
    return cli::diff_text(report, {out, err});
}

std::string comparison_text(const Answer& predicted, const trace::Trace& measured,
                            const std::string& measured_name) {
    constexpr std::size_t kOps = 10;  // as many as the command line lists
    const trace::Trace& trace = predicted.prediction->trace;
    try {
        const compare::Comparison comparison = compare::compare_traces(trace, measured);
        const cli::ComparisonReport report{comparison,    name_of(predicted.asked),
                                           measured_name, trace.facts.prices,
                                           kOps,          predicted.read.resolved_json};
        std::ostringstream out, err;
        return cli::comparison_text(report, {out, err});
    } catch (const std::exception& differ) {
        return differ.what();
    }
}

}  // namespace orrery::gui
