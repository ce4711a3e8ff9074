// What communication takes of a step: from when the last rank was ready for it to when those that
// wait for it go on. Between ranks that are threads much of that is neither bytes nor arithmetic:
// a thread is woken to communicate, peers are told, and the one that computes is woken again.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::measure {

struct Passage {
    trace::Picoseconds ready = 0;  // this rank had nothing before it any more
    trace::Picoseconds came = 0;   // nor had the last member
    trace::Picoseconds over = 0;   // the end; where compute waited for it, until that began
    bool awaited = false;          // compute waited for it
};

// By op id of a rank, of a measured trace; of what does not communicate nothing is said. A peer's
// part in a collective is its call of the same number among its group's; in an exchange the one
// that began with it.
std::vector<Passage> passages(const trace::Trace& trace, const trace::Track& track);

// Of a passage, the seconds during which its rank computed.
double hidden_s(const trace::Trace& trace, const trace::Track& track, const Passage& passage);

}  // namespace orrery::measure
