// orrery-run, the program that performs plans: what needs the runtime, and later GPUs and MPI,
// which the program orrery does without.
#include "cli/process.hpp"
#include "cli/program.hpp"
#include "cli/run/exit_code_of_failure.hpp"
#include "cli/run/subcommands.hpp"

namespace {

using namespace orrery;

int run(const std::vector<std::string>& args, cli::Console console) {
    cli::Program program;
    program.description = "The part of Orrery that trains and measures; ./orrery starts it.";
    program.exit_code_of = cli::exit_code_of_failure;
    program.subcommands.push_back(cli::train_command());
    program.subcommands.push_back(cli::export_command());
    program.subcommands.push_back(cli::calibrate_command());
    program.subcommands.push_back(cli::doctor_command());
    return cli::run_program(program, args, console);
}

}  // namespace

int main(int argc, char** argv) {
    return cli::run_process(argc, argv, run);
}
