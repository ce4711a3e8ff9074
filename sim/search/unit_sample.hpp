// What one plan of a few layers says of the stage of one of its programs: what its passes take,
// from what the engine made of it, and what is alive, from the plan alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/ir/communicators.hpp"
#include "plan/ir/plan.hpp"
#include "sim/machine.hpp"

namespace orrery::sim {

// Of the passes of a micro-batch through a stage; in the order of plan::ActionKind.
inline constexpr std::size_t kPasses = 4;  // forward, backward, backward_input, backward_weight

inline constexpr std::int64_t kUnitMicroBatches = 4;  // two of them neither first nor last

struct SampledTimes {
    std::array<double, kPasses> lead{}, busy{}, tail{}, undisturbed{}, launched{};
    double step_seconds = 0;
};
// Of the programs of a machine's plan, which ran alone.
std::vector<SampledTimes> sampled_times(const plan::Plan& plan, const Machine& machine);

struct SampledBytes {
    std::array<double, kPasses> while_running{};
    double elements = 0, expert_elements = 0, stepped = 0;
    double whole_states = 0, shared_states = 0, shared_expert_states = 0, fixed = 0, at_end = 0;
    double until_backward = 0, until_weights = 0, between_halves = 0;
    double host_states = 0, host_shared_states = 0, host_in_flight = 0;
    plan::GroupSet groups;  // that its ops name
};
SampledBytes sampled_bytes(const plan::Plan& plan, const plan::Program& program);

}  // namespace orrery::sim
