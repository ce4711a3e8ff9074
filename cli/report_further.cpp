// What of the report takes further simulations.
#include "cli/progress.hpp"
#include "cli/report.hpp"

namespace orrery::cli {

void ReportInput::ask_further(const plan::ReadResult& read, const std::function<void()>& step) {
    if (!prediction.stuck.empty() || prediction.prices) return;
    fixes = sim::find_fixes(
        scenario, profile, prediction,
        [this](const std::vector<std::string>& changes) { return arguments.read_with(changes); },
        step);
    stacks = sim::stack_needs(scenario, read.resolved_json, profile, library_folder());
    unused = sim::unused_keys(read, prediction);
}

void ReportInput::ask_further(const plan::ReadResult& read, const std::string& subcommand,
                              const Console& console) {
    Progress progress(console, subcommand, "trying changes that make it fit");
    ask_further(read, [&] { progress.step(); });
}

}  // namespace orrery::cli
