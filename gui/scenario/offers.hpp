// Errors with a way out that a click can take. What a diagnostic's help lines propose is tried by
// the strict reader, and offered where that error is then gone and no other has come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/scenario/diagnostic.hpp"

namespace orrery::gui {

struct Offer {
    std::string label;  // "pipeline_parallel: 8"
    std::string text;   // of the whole scenario, with the change
};

using ReadErrors = std::function<std::vector<plan::Diagnostic>(const std::string& text)>;

// By number of the error in `errors`, which are those of `text`, called `file`; the nearest values
// first, at most three of a help line.
std::vector<std::vector<Offer>> offers_for(const std::string& text, const std::string& file,
                                           const std::vector<plan::Diagnostic>& errors,
                                           const ReadErrors& read_errors);

}  // namespace orrery::gui
