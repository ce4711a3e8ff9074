// What it takes to join two traces of one plan op by op: where a step's events begin, and whether
// two programs are the same.
#pragma once

#include <cstddef>

#include "trace/trace.hpp"

namespace orrery::trace {

// Op id of the first op of the last step that a track holds: a trace may have several steps of a
// plan, one after another, and its window is about the last. Steps of a program are numbered within
// one repetition, so that a repetition begins where their number falls.
std::size_t first_of_last_step(const ProgramOps& program);

// Whether two ops are the same but for what a rank sends, which follows from the rest and the plan.
bool same_op(const OpName& a, const OpName& b);

// Whether the last steps of a program of `a` and one of `b` have the same actions and ops.
bool same_step(const Trace& a, const ProgramOps& of_a, const Trace& b, const ProgramOps& of_b);

}  // namespace orrery::trace
