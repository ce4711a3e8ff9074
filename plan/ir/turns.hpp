// Steps that run on into one another (layout.staleness): residents of which several copies take
// turns, and the order that this leaves.
#pragma once

#include "plan/ir/link.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

// The most copies of a resident; 1: every step ends before the next begins to compute.
std::int32_t turns_of(const Program& program);

// The program of the steps c with c mod turns = turn: each resident is the copy that has its turn.
Program at_turn(Program program, std::int32_t turn);

// One step of an endless row of them: of each, waits count from its own start, and what is of a
// step before counts below 0, that is, modulo 2^32. Before the first step nothing is waited for.
LinkedProgram link_endless(const Plan& plan, const Program& program);

}  // namespace orrery::plan
