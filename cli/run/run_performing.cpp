#include "cli/run/run_performing.hpp"

#include "cli/command_line/description.hpp"
#include "cli/run/runtime_failures.hpp"
#include "cli/run_subcommands.hpp"

namespace orrery::cli {
Program performing_program() {
    Program program;
    program.description = "The part of Orrery that trains and measures; ./orrery starts it.";
    program.failures = runtime_failures();
    program.subcommands.push_back(train_command());
    program.subcommands.push_back(export_command());
    program.subcommands.push_back(calibrate_command());
    program.subcommands.push_back(doctor_command());
    program.subcommands.push_back(commands_of_orrery_run(performing_program));
    return program;
}

int run_performing(const std::vector<std::string>& args, Console console) {
    return run_program(performing_program(), args, console);
}

}  // namespace orrery::cli
