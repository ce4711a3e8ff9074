// The text form of plans: what a person reads to see what a step is, what golden files hold, and
// what parses back to the very same plan. docs/plan-text.md explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// The whole plan. Lines are at most 100 columns where a name does not make them longer. Plans that
// the text can hold: ids are −1 or an index, a step is one compute action or transfers whose first
// names it, shapes use no field that their kind does not name.
std::string to_text(const Plan& plan);

// One pipeline rank: the blocks that its program uses, under their numbers in the plan, and the
// program. An excerpt, which parse_plan refuses.
std::string to_text(const Plan& plan, std::int32_t pipeline_rank);

// One block as it stands in the plan, without number and group sizes.
std::string to_text(const Block& block);

struct ParsedPlan {
    std::optional<Plan> plan;
    std::string error;  // "line 12, column 5: found "foo", expected a stream (compute, …)"
};

// parse_plan(to_text(plan)).plan == plan. Ids that point nowhere and numbers beyond 2⁵⁰ are errors:
// what is returned can be walked, though only validate_plan knows whether it makes sense.
ParsedPlan parse_plan(std::string_view text);

}  // namespace orrery::plan
