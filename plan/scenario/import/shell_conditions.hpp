// What `[ … ]`, `[[ … ]]` and the patterns of `case` say of words that are known. Internal to the
// reader of scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/scenario/import/shell_script.hpp"

namespace orrery::plan::imports {

// Whether a condition holds; nothing where only a run can tell.
using Truth = std::optional<bool>;

Truth negated(Truth truth);

// The words between the brackets. `patterns`: the right side of = is one, as within [[ ]].
Truth test_holds(const std::vector<ShellWord>& words, bool patterns);

// "X" of `-z "$X"` and `-n "$X"`, alone, where nothing here has set X; else empty.
std::string asks_whether_set(const std::vector<ShellWord>& words);

// With * and ?; nothing where the word is open or the pattern has brackets.
Truth matches_pattern(const ShellWord& word, const ShellWord& pattern);

}  // namespace orrery::plan::imports
