// A plan as a file: its text, and behind it what the simulator needs that no plan says
// (plan/scenario/plan_facts.hpp).
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

struct PlanFile {
    Plan plan;
    std::string facts;  // JSON; empty: a plan alone
};

std::string to_text(const PlanFile& file);

struct ParsedPlanFile {
    std::optional<PlanFile> file;
    std::string error;  // as of parse_plan
};
ParsedPlanFile parse_plan_file(std::string_view text);

// Whether a text begins as a plan's does, of whatever version.
bool is_plan_text(std::string_view text);

// A plan file that cannot be read, or whose plan breaks its own rules. what() begins with its path.
class PlanFileError : public std::runtime_error {
  public:
    PlanFileError(const std::string& path, const std::string& message)
        : std::runtime_error(path + ": " + message) {}
};

}  // namespace orrery::plan
