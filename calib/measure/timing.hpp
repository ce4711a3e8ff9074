// How long a call takes while every rank makes it: ranks share caches, memory and clocks, so that a
// kernel timed alone on an idle machine is faster than it is in training.
#pragma once

#include <functional>
#include <vector>

#include "calib/measure/disturbance.hpp"
#include "runtime/comm/communicator.hpp"

namespace orrery::measure {

struct Sampling {
    int warm_ups = 3;
    int samples = 9;  // of which the median is taken
    // Calls are repeated within a sample until it is as long as this, so that clock and barrier do
    // not count.
    double seconds_per_sample = 0.001;
    SampleCount* count = nullptr;  // null: nobody asks; of the first rank
};

// Seconds of one call: the median of each rank's samples, and of these the mean over ranks. A
// sample during which a thread of this process lost its core to another one is dropped, and taken
// again, as long as at most twice as many are dropped as count; where most were, all count. All
// ranks of the communicator must come with calls of one kind; a sample starts when all have come.
// Every rank gets the same result.
double timed(runtime::Communicator& ranks, const Sampling& sampling,
             const std::function<void()>& call);

// Of at least one value; of an even number the upper of the two in the middle.
double median(std::vector<double> values);

}  // namespace orrery::measure
