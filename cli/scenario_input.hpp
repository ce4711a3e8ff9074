// The part that every subcommand about a scenario shares: FILE and --set, read, or reported.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "plan/scenario/reader.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

struct ScenarioInput {
    std::string file;
    std::vector<std::string> sets;

    void declare(CLI::App& app);
    // Throws UsageError for a --set without '='. If the result has errors they have been printed:
    // as text on console.err and, with `json`, as an object on console.out.
    plan::ReadResult read(Console& console, bool json) const;
    // As the user would repeat it on a command line: "FILE --set a=b". With `set`, "key=value",
    // that comes last, instead of what was set for its key.
    std::string arguments(const std::string& set = "") const;
};

// Of a result with errors.
int exit_code_of(const plan::ReadResult& result);

}  // namespace orrery::cli
