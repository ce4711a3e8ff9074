// The resolved scenario as JSON: every default filled in, every reference but the profile's inline,
// a scenario file that reads to the same Scenario. Every output of the program embeds it. Internal.
#pragma once

#include "plan/scenario/document.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

Json resolved(const Scenario& scenario, const Document& document, const Verbatim& verbatim);
// As ReadResult has it.
std::string resolved_text(const Json& resolved);

}  // namespace orrery::plan
