// The JSON form of plans, for programs that read them: the content of the text form
// (plan/text/text.hpp) under the same names, keys in a fixed order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// One object, ending in a newline:
//   "mesh", "micro_batches", "schedule", "exchange_block", "conserved",
//   "blocks"    [{"number", "name", "input", "output", "scratch_bytes", "tensors", "ops",
//   "reuse"}], "programs"  [{"pipeline_rank", "arena_bytes", …, "stages", "buckets", "procedures",
//                 "residents", "steps"}].
// Ids are indices, null for none; tensors of an op are indices into its block's tensors.
// With a rank: its program, and the blocks that it uses.
std::string plan_json(const Plan& plan, std::optional<std::int32_t> rank);

}  // namespace orrery::plan
