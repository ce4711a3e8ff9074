// Whether the ops of blocks have the operands that they declare (plan/ops/operands.hpp): as many,
// of the right widths, and no smaller than what the op does with them. A kernel then touches no
// byte beyond its tensors, whatever text a plan was read from. Part of plan_faults.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/block.hpp"
#include "plan/ir/mesh.hpp"

namespace orrery::plan {

// What is wrong with one op of a block, a line each; empty where nothing is.
std::vector<std::string> operand_faults(const Block& block, const Op& op);

// Of all ops, with the name of the block before each line; and that what hands something to a group
// is one of its members.
std::vector<std::string> operand_faults(const std::vector<Block>& blocks, const Mesh& mesh);

}  // namespace orrery::plan
