// What the host of a rank takes to issue an op. It is not the same for all: forward is issued by a
// Python interpreter, backward by PyTorch's autograd engine, which is C++, and a transfer of the
// pipeline has a protocol of its own around it.
#pragma once

#include "plan/ir/kinds.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

struct LaunchTimes {
    Picoseconds forward = 0;  // recomputation and the optimizer, too
    Picoseconds backward = 0;
    Picoseconds transfer = 0;  // an exchange with stages of the pipeline

    LaunchTimes() = default;
    LaunchTimes(Picoseconds each) : forward(each), backward(each), transfer(each) {}

    Picoseconds of(plan::OpKind kind, plan::Phase phase) const {
        if (kind == plan::OpKind::exchange) return transfer;
        return phase == plan::Phase::backward ? backward : forward;
    }
    bool operator==(const LaunchTimes&) const = default;
    bool none() const { return forward == 0 && backward == 0 && transfer == 0; }
};

}  // namespace orrery::trace
