// Changes to the priced ops of a machine, before it runs: the worlds that what-ifs ask about.
#pragma once

#include "sim/cost/profile.hpp"
#include "sim/machine.hpp"
#include "trace/accounts.hpp"

namespace orrery::sim {

// An exchange begins when its own rank is ready; its transfers keep their time.
void never_wait_for_peers(const plan::Plan& plan, const Profile& profile, Machine& machine);

// Kernels of the compute stream are stretched or shrunk on each rank by one factor, so that their
// sum is the mean over ranks everywhere (to the rounding of each kernel to a picosecond).
void balance_stages(const plan::Plan& plan, const Profile& profile, Machine& machine);

// Kernels of the compute stream, rounded up.
void halve_compute(const plan::Plan& plan, const Profile& profile, Machine& machine);

// Matrix products (not those of unfused attention) at the dense peak of their element type, where
// the profile has one and they are slower.
void multiply_at_peak(const plan::Plan& plan, const Profile& profile, Machine& machine);

// Kernels and collectives of recomputation take no time.
void free_recomputation(const plan::Plan& plan, const Profile& profile, Machine& machine);

// No op comes later than the device lets it; of measured times, which say how late.
void issue_at_once(const plan::Plan& plan, const Profile& profile, Machine& machine);

// Kernels of the optimizer, on whatever stream, take no time.
void free_optimizer(const plan::Plan& plan, const Profile& profile, Machine& machine);

// What exposed_account() calls `account` takes no time; its members still meet.
void free_communication(const plan::Plan& plan, Machine& machine, trace::Account account);

}  // namespace orrery::sim
