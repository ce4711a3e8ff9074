// What the host of a rank takes to issue an op. It is not the same for all: forward is issued by a
// Python interpreter, backward by PyTorch's autograd engine, which is C++; an op that computes may
// stand for several kernels, a collective is one; and a transfer of the pipeline has a protocol of
// its own around it.
#pragma once

#include "plan/ir/kinds.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

struct LaunchTimes {
    Picoseconds forward = 0;  // recomputation and the optimizer, too
    Picoseconds backward = 0;
    Picoseconds forward_collective = 0;
    Picoseconds backward_collective = 0;
    Picoseconds transfer = 0;  // an exchange with stages of the pipeline

    LaunchTimes() = default;
    LaunchTimes(Picoseconds each)
        : forward(each),
          backward(each),
          forward_collective(each),
          backward_collective(each),
          transfer(each) {}

    Picoseconds of(plan::OpKind kind, plan::Phase phase) const {
        if (kind == plan::OpKind::exchange) return transfer;
        const bool back = phase == plan::Phase::backward;
        if (plan::is_communication(kind)) return back ? backward_collective : forward_collective;
        return back ? backward : forward;
    }
    bool operator==(const LaunchTimes&) const = default;
    bool none() const { return *this == LaunchTimes(); }
};

}  // namespace orrery::trace
