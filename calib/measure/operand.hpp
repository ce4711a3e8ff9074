// Memory for a kernel under measurement, with numbers of N(0, 1): zeros are faster than what
// training multiplies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/number.hpp"

namespace orrery::measure {

// So many numbers are drawn, then they repeat. A prime, so that rows of a matrix differ.
inline constexpr std::int64_t kDrawnOnce = 1'000'003;

class Operand {
  public:
    Operand(plan::DType dtype, std::int64_t elements);
    operator runtime::Buffer() { return {bytes_.data(), dtype_}; }
    void* data() { return bytes_.data(); }

  private:
    plan::DType dtype_;
    std::vector<std::byte> bytes_;
};

}  // namespace orrery::measure
