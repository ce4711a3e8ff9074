// $((…)) of a shell: whole numbers with + - * / %, comparisons, && and ||, parentheses and
// variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::plan::imports {

// The value of a variable; nothing where it has none that is known.
using ShellVariable = std::function<std::optional<std::string>(const std::string& name)>;

// Nothing where the text is no such expression, a variable is not known, a divisor is 0 or the
// numbers leave 64 bits.
std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellVariable& variable);

}  // namespace orrery::plan::imports
