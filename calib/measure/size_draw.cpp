#include "calib/measure/size_draw.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::measure {

std::int64_t SizeDraw::operator()(std::int64_t low, std::int64_t high, std::int64_t multiple) {
    const double unit = static_cast<double>(bits_() >> 11) * 0x1p-53;
    const double size = static_cast<double>(low) *
                        std::pow(static_cast<double>(high) / static_cast<double>(low), unit);
    const auto units = std::llround(size / static_cast<double>(multiple));
    return std::max<std::int64_t>(1, units) * multiple;
}

}  // namespace orrery::measure
