// Whether two traces are of one plan, and what differs where they are not.
#pragma once

#include <string>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::compare {

// A sentence per difference, all at once; none: the traces join, step for step. First what the
// scenarios say differently, where the plans differ, then how the plans differ.
std::vector<std::string> differences_of(const trace::Trace& predicted,
                                        const trace::Trace& measured);

}  // namespace orrery::compare
