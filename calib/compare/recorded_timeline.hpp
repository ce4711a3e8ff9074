// A recorded step as its plan lays it out: every op of every rank where it was, so that `compare`
// joins the two op by op, and a replay takes the step's own times and waits where it waited.
#pragma once

#include <optional>
#include <vector>

#include "calib/compare/recorded_match.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::compare {

// Ranks, their matches and their tracks in the prediction are as of matched_trace
// (recorded_match.hpp), whose trace is `matched`; that one is given back where an op of the plan,
// or a rank, has no time: of it there is no more than prices.
//
// A rank's compute ops lie behind each other in the plan's order, each as late as no other work of
// the plan ran before it: the host was busy, waited for a message, or did what is not in the plan.
// A message that was told from the others lies where it lay among these ops, and takes what the
// member that came last took: the others' time is waiting. What was matched by kind alone follows
// what its rank computed before.
trace::Trace laid_out(const trace::Trace& matched, const std::vector<const RecordedRank*>& ranks,
                      const std::vector<RankMatch>& matches, const trace::Trace& predicted,
                      const std::vector<const trace::Track*>& tracks, const plan::Plan& plan,
                      const plan::Scenario& scenario, const sim::Profile& profile);

}  // namespace orrery::compare
