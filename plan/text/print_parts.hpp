// The pieces that a plan's text is printed from. Internal to plan/text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// number −1 and mesh nullptr: a block on its own, without number and group sizes.
std::string block_text(const Block& block, std::int32_t number, const Mesh* mesh);
// Which blocks the program of a pipeline rank uses, its transfers included.
std::vector<bool> blocks_used(const Plan& plan, std::int32_t pipeline_rank);
std::string program_text(const Plan& plan, const Program& program);

}  // namespace orrery::plan
