// The command line as data: every command of the one orrery that a user has, with its options, as
// they are declared. What completes words and what prints manual pages reads this, and so may any
// other program (orrery commands --json). The commands of orrery-run describe themselves: that
// program prints the same object, and this one puts both together.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/build_facts.hpp"
#include "cli/console.hpp"
#include "cli/program.hpp"

namespace orrery::cli {

struct DescribedOption {
    std::vector<std::string> names;  // "-o", "--output"; empty: an argument without one
    std::string value;               // "FILE"; empty: a flag
    std::string help;
    bool required = false;
    bool repeatable = false;
    bool file = false;               // its value is a path
    bool folder = false;             // of a folder
    std::vector<std::string> words;  // what it may be
    std::string source;              // what lists the words it may be: a WordSource; or empty

    bool is_positional() const { return names.empty(); }
    bool operator==(const DescribedOption&) const = default;
};

struct DescribedCommand {
    std::string name;
    std::string summary;
    std::string program;                // "orrery"
    std::vector<std::string> examples;  // without "orrery "
    std::vector<DescribedOption> options;
    // Of a command of a program that could not be asked nothing is known but its summary.
    bool known = true;

    bool operator==(const DescribedCommand&) const = default;
};

struct CommandLine {
    std::string description;
    std::vector<DescribedOption> options;  // before any command
    std::vector<DescribedCommand> commands;
};

// Those of one program, as it declares them.
CommandLine describe(const Program& program, const std::string& program_name);

// Of orrery, with what orrery-run says of its own. Where that does not lie beside this program, or
// does not answer, a message on console.err says so.
CommandLine whole_command_line(Console& console);

// {"build": {…}, "description", "options": […], "commands": [{"name", "summary", "program",
// "examples", "options": [{"names", "value", "help", "required", "repeatable", "file", "folder",
// "words", "source"}]}]}
nlohmann::ordered_json to_json(const CommandLine& commands, const BuildFacts& facts);
// Throws nlohmann::json::exception where it is no such object.
CommandLine command_line_of(const nlohmann::json& json);

// For orrery-run: the subcommand `commands` that describes the program which is made by `program`.
std::unique_ptr<Subcommand> commands_of_orrery_run(Program (*program)());

}  // namespace orrery::cli
