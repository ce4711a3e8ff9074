// What linking reads of a plan (link.hpp), in a digest: plans with the same key are linked alike,
// whatever their sizes. Finding it takes a small part of what linking does.
#pragma once

#include "plan/ir/digest.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

Digest link_key(const Plan& plan);

}  // namespace orrery::plan
