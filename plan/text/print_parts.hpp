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

// Where the tensors of a use lie, or of a run of so many, of which these are the first and the
// second: "x=stash/1..2@1280..57088 dy=r5,r6@0 shard=r0@0:data". Lines of their own.
std::string slot_lines(const Block& block, const BlockUse& first, const BlockUse& second,
                       std::size_t count);
// Whether two uses can be of one run, as far as their slots are concerned.
bool have_alike_slots(const BlockUse& a, const BlockUse& b);

}  // namespace orrery::plan
