// What an import says about every key of the file it read: as tables for a person, as JSON.
#pragma once

#include <string>

#include "cli/console.hpp"
#include "plan/scenario/import/imported.hpp"

namespace orrery::cli {

// For stderr, whose width `console` has; ends in a newline. What the scenario says by itself, the
// settings that were taken as they are, is not repeated.
std::string import_text_report(const plan::imports::Imported& imported, const Console& console);

// {"scenario", "mapped": [{"from", "to", "value"}], "ignored", "unsupported": [{"key", "value",
// "why"}], "missing": [{"to", "why"}]}, docs/import.md.
std::string import_json(const plan::imports::Imported& imported);

}  // namespace orrery::cli
