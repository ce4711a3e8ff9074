// How sure a step time is, by what it is unsure of. Each part is a relative standard deviation of
// the step, one for each side, for misses are not alike: runs are slower than predicted more often
// than faster. Parts are independent; the central 90 % is their root of squares.
//
//   90 % -8 to +14 %: stack 8 % (never timed here), fabric 3 %, kernel 2 %
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::sim {

struct Machine;
struct Prediction;

enum class IntervalPart : std::uint8_t {
    kernel,    // of products, attention and what moves memory, timed on this device
    device,    // the same where nobody timed the device: what a transfer between devices misses
    link,      // collectives within a node
    fabric,    // between nodes
    stack,     // what the stack's kernels do not explain of its steps, or that nobody timed it
    structure  // what the model of a step leaves out, other releases and clusters
};
inline constexpr std::size_t kIntervalParts = 6;
std::string_view name(IntervalPart part);

struct Deviation {
    double early = 0;
    double late = 0;
};
using IntervalParts = std::array<Deviation, kIntervalParts>;

// 90 % of a normal distribution lie within this many standard deviations.
inline constexpr double kCentral90 = 1.6448536269514722;

Deviation together(const IntervalParts& parts);

// 1 − early, the share of a time that an interval begins at; from a quarter down the exponential
// that goes on with its value and slope, as no step takes no time: ¼·e^(3 − 4·early).
double earliest_share(double early);

// Of the step in `prediction`, whose trace and communication are there.
IntervalParts interval_parts(const Prediction& prediction, const Machine& machine,
                             const plan::Framework& framework, const Profile& profile,
                             const StackPrior& prior);

}  // namespace orrery::sim
