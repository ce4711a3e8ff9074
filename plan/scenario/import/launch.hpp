// The command of a script that starts a training program: which one it is, its options, and how
// many ranks its launcher starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/scenario/import/sheet.hpp"
#include "plan/scenario/import/shell_script.hpp"

namespace orrery::plan::imports {

struct Launch {
    std::vector<Setting> options;    // of the program
    std::vector<Setting> launchers;  // "torchrun --nnodes"
    ShellWord program;               // "pretrain_gpt.py"; empty where there are options alone
};

// The command with a program "*.py", or the options alone. Throws ShellError where there is none,
// or more than one.
Launch find_launch(const ShellScript& script);

// "--key value …", "--key=value" and flags.
std::vector<Setting> split_options(const std::vector<ShellWord>& words);

struct Launched {
    std::optional<std::int64_t> ranks;
    std::string from;        // the options that say so
    bool unsettled = false;  // they are said by variables from outside
};

// How many ranks the launchers start; uses their settings on the sheet.
Launched launched_ranks(Sheet& sheet);

}  // namespace orrery::plan::imports
