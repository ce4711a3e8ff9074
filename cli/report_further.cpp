// What of the report takes further simulations.
#include "cli/progress.hpp"
#include "cli/report.hpp"

namespace orrery::cli {

void ReportInput::ask_further(const plan::ReadResult& read, const std::string& subcommand,
                              const Console& console) {
    if (!prediction.stuck.empty() || prediction.prices) return;
    {
        Progress progress(console, subcommand, "trying changes that make it fit");
        fixes = sim::find_fixes(
            scenario, profile, prediction,
            [this](const std::vector<std::string>& changes) {
                return arguments.read_with(changes);
            },
            [&] { progress.step(); });
    }
    stacks = sim::stack_needs(scenario, read.resolved_json, profile, library_folder());
    unused = sim::unused_keys(read, prediction);
}

}  // namespace orrery::cli
