// Variables where a condition parts and its branches meet again. Internal to the reader of scripts.
#pragma once

#include <string>
#include <vector>

#include "plan/scenario/import/shell_words.hpp"

namespace orrery::plan::imports {

// What the variables are behind a condition that is not settled: those that all branches leave
// alike, the options that only some add left out and noted in `undecided`, the others open with
// their values. `assumed_unset`: the variable whose absence was the condition; the branch that
// gives it a value stands, as the default of ${NAME:-default} does.
ShellVariables merged(const ShellVariables& base, const std::vector<ShellVariables>& branches,
                      const std::string& assumed_unset, std::vector<Undecided>& undecided);

}  // namespace orrery::plan::imports
