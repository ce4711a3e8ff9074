// CUDA graphs: kernels that were captured once are launched together, so that a host issues a graph
// in the time of one op (NVIDIA, CUDA C++ programming guide, "CUDA Graphs").
#pragma once

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "trace/critical_path.hpp"
#include "trace/launch_times.hpp"

namespace orrery::sim {

// Which ops of a plan are launched with others, which stand for several launches, and before which
// the host reads how many rows came to experts, where it is not the device itself. per_layer: the
// blocks of each layer's passes, but for what follows from how many rows come to an expert, and not
// what is between them (gathers and reductions of sharded states, embedding, head). full_iteration:
// all but the optimizer and copies between tiers of memory. No ops without graphs.
trace::GraphLaunches graph_launches(const plan::Plan& plan, const plan::Scenario& scenario,
                                    const Hardware& hardware);

// Whether a rank's host launches nothing after transfers until the device has done all before.
bool host_waits_for_exchanges(const plan::Scenario& scenario, const Hardware& hardware);

// How the host of each rank issues the ops of a predicted step.
trace::HostIssue host_issue(const plan::Scenario& scenario, const Hardware& hardware);

// What a rank's graphs hold of the device's memory between steps, beside the arena: their nodes,
// and where each layer has graphs of its own the scratch of these, which no other can use, unless
// the stack places all of its memory itself. As many graphs of a layer as micro-batches are in
// flight.
std::int64_t graph_bytes(const plan::Plan& plan, const plan::Program& program,
                         const plan::Scenario& scenario);

}  // namespace orrery::sim
