// The version of the text form of plans (docs/plan-text.md): raised when a reader of the one before
// would go wrong. Versions 1 and 2 are not read any more.
#pragma once

namespace orrery::plan {

inline constexpr int kPlanTextVersion = 3;

}  // namespace orrery::plan
