// Sizes of what is timed, spread evenly over octaves. Bits of the engine and libm alone decide: the
// same sizes on every machine.
#pragma once

#include <cstdint>
#include <random>

namespace orrery::measure {

class SizeDraw {
  public:
    // Between low and high, a positive multiple of `multiple`.
    std::int64_t operator()(std::int64_t low, std::int64_t high, std::int64_t multiple);

  private:
    std::mt19937_64 bits_{1};
};

}  // namespace orrery::measure
