#include "cli/run_cli.hpp"

#include "cli/run_subcommands.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {
Program predicting_program() {
    Program program;
    program.description =
        "Orrery predicts what every GPU of a cluster does in a training step, and trains.";
#define ORRERY_ADD(name) program.subcommands.push_back(name##_command());
    ORRERY_SUBCOMMANDS(ORRERY_ADD)
#undef ORRERY_ADD
    for (const RunSubcommand& other : kRunSubcommands)
        program.elsewhere.push_back({other.name, other.summary, other.example, "orrery-run"});
    program.elsewhere.push_back({kGui.name, kGui.summary, kGui.example, "orrery-gui"});
    return program;
}

int run_cli(const std::vector<std::string>& args, Console console) {
    return run_program(predicting_program(), args, console);
}

}  // namespace orrery::cli
