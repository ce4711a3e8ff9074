// Reading a scenario in a fuzz target: the shipped files and no others, and what must hold of every
// result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/reader.hpp"

namespace orrery::fuzz {

// A scenario of two layers on 16 devices that --set can turn into others; whole text.
extern const char* const kSmallScenario;

// Checked: a scenario exactly when there are no errors, errors that can be printed, and a resolved
// text that reads to the same scenario and the same text.
plan::ReadResult read_checked(std::string_view text, const std::vector<std::string>& sets);

// The lines of `input` that have the form of a --set, at most 16.
std::vector<std::string> sets_in(std::string_view input);

// For every number and every flag of the resolved small scenario: "path=value" with the ends of
// what a number can be.
std::vector<std::string> extreme_sets();

}  // namespace orrery::fuzz
