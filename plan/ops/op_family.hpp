// What is common to all that an op can be.
#pragma once

#include <cstdint>

namespace orrery::plan {

// What an op is of, for whoever treats kinds alike.
enum class OpFamily : std::uint8_t {
    matrix,         // products
    attention,      // without materialised scores
    memory,         // as fast as the bytes of what it reads and writes
    communication,  // ties ranks together
    copy            // between tiers of memory
};

}  // namespace orrery::plan
