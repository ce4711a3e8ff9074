// Whether all ranks are about to perform the same run. Ranks that are processes read their scenario
// each for itself: one that was edited, a mount that is stale or a program that was updated on one
// node would train along with the others, on another model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/launch/control_plane.hpp"
#include "runtime/launch/launch.hpp"

namespace orrery::runtime {

// What must be the same on every rank: "/training/optimizer/learning_rate" is "0.001". Values of
// any length; in the same order on every rank that agrees.
using RunStatement = std::vector<std::pair<std::string, std::string>>;

// The run cannot begin: ranks differ in a key.
class DisagreementError : public LaunchError {
  public:
    using LaunchError::LaunchError;
};

// All ranks call it. Throws DisagreementError on all, with the ranks, the key and both values of
// the first difference:
//   "rank 1 on node07 differs from rank 0 on node06 in /training/seed: 9 there, 1234 here"
void require_agreement(ControlPlane& control, const RunStatement& own);

}  // namespace orrery::runtime
