// Timings of the communicator's collectives over sizes, as the fit takes them.
#pragma once

#include <string>
#include <vector>

#include "calib/fit/collectives.hpp"
#include "calib/measure/timing.hpp"

namespace orrery::measure {

struct CollectiveGrid {
    std::int64_t low_bytes = 256, high_bytes = 16 << 20;  // powers of two
    int repetitions = 3;                                  // of each size, one after all others
};

// fp32, over all ranks of the communicator. Called on every rank; all get the same samples.
std::vector<fit::CollectiveSample> time_collectives(runtime::Communicator& ranks,
                                                    const Sampling& sampling,
                                                    const CollectiveGrid& grid,
                                                    const fit::CollectiveSample& like);

}  // namespace orrery::measure
