// A program of subcommands: arguments in, text and an exit code out. orrery and orrery-run are two
// of these, one to their user: both call themselves orrery.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/failure_row.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {

// A subcommand of another program, for help.
struct Elsewhere {
    std::string name;
    std::string summary;
    std::string example;
    std::string program;
};

struct Program {
    std::string description;
    std::vector<std::unique_ptr<Subcommand>> subcommands;
    std::vector<Elsewhere> elsewhere;
    // What its subcommands throw beside that of every program's.
    std::span<const FailureRow> failures = {};
};

// The parser of all its subcommands, each of which has been declared on it: of `program`, which has
// to outlive it.
std::unique_ptr<CLI::App> command_line_app(const Program& program);

// `args` without the program's name. A subcommand runs once its outputs are clear
// (CommandFiles). Everything that a subcommand throws ends here as a message on
// console.err and an exit code.
int run_program(const Program& program, const std::vector<std::string>& args, Console console);

}  // namespace orrery::cli
