// What is not known of a software stack that nobody has measured on a device: how far measured
// stacks lie from what was said of them before. Relative standard deviations, each side its own,
// since the misses are not alike: stacks are slower than they should be, and need more memory.
#pragma once

#include <string>

#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::sim {

struct StackPrior {
    double step_early = 0;       // of the step time: shorter than predicted …
    double step_late = 0;        // … and longer
    double structure_early = 0;  // of single runs about their stack's mean
    double structure_late = 0;
    double launch = 0;       // of the time that the step waits for the host
    double memory_more = 0;  // of what a rank needs, more than predicted

    bool any() const { return step_late > 0 || memory_more > 0; }
};

// The spread among measured stacks (tests/calib/compare/stack_prior_test.cpp derives it anew).
//
// Of the step: mean measured ÷ predicted − 1 of each source's runs on NVIDIA's devices where
// nothing was fitted to them and its stack is the population's (orrery validate --leave-out); the
// nine in ten are faster by 5 % or less, and nine in ten slower by 10 % or less.
inline constexpr double kStepEarly = 0.05;
inline constexpr double kStepLate = 0.10;

// Of runs about what their stack and device have elsewhere, the same way: what the model of a step
// leaves out, other releases, other clusters. A user's own run is of a source that nobody has seen,
// so it has it whatever the stack.
inline constexpr double kStructureEarly = 0.07;
inline constexpr double kStructureLate = 0.09;

// Of what the host takes to launch an operation, of its logarithm: stacks of one generation differ
// by as much (scenarios/priors/stacks.json). It lengthens what a step waits for the host.
inline constexpr double kLaunchSpread = 0.6;

// Of the memory: what the nine measured stacks need over what Orrery's own plan does, for the same
// shipped runs that fill a third of their devices or more and with the same attention kernel: from
// 3 to 44 % more, root mean square 19 %.
inline constexpr double kMemoryMore = 0.19;

// Whether `stack` was timed on this device; whether its memory was measured on any of its kind.
bool timed_on(const plan::Framework& stack, const Profile& device);
bool memory_known(const plan::Framework& stack, const Profile& device);

// Of the device and those of other nodes: what is open of one is. of_fitted_source: the run is one
// of those that the stack's constants were fitted to, and no other cluster's or release's: then
// nothing of single sources is left open.
StackPrior stack_prior(const plan::Framework& stack, const Profile& device,
                       bool of_fitted_source = false);

}  // namespace orrery::sim
