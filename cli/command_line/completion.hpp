// Scripts that complete words of the command line in a shell, made of its description. Fixed words
// stand in the script; those of the library are asked of the program that is on the line, by
// `orrery completion --words SOURCE`.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_line/description.hpp"

namespace orrery::cli {

std::string bash_completion(const CommandLine& commands);
std::string zsh_completion(const CommandLine& commands);
std::string fish_completion(const CommandLine& commands);

// In single quotes of a shell.
std::string single_quoted(std::string_view text);

}  // namespace orrery::cli
